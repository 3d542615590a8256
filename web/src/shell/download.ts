/** Download of a file by the browser. */

/** Download content under a name. */
export function download(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // The browser reads the object URL after this task.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
