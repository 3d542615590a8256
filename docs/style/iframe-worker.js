// A browser starts no worker from a file on disk; a hidden frame of the same page does its work, so that search works there, too.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      frame.addEventListener("load", () => {
        const inner = frame.contentWindow;
        inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        const script = inner.document.createElement("script");
        script.src = url;
        script.addEventListener("load", () => {
          this.inner = inner;
          for (const data of this.waiting.splice(0)) this.postMessage(data);
        });
        inner.document.head.append(script);
      }, { once: true });
      document.documentElement.append(frame);
    }

    postMessage(data) {
      if (this.inner) this.inner.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
  };
}
