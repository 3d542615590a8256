/** As much of jsdom as the tests use; it ships no types of its own. */
declare module "jsdom" {
  export class JSDOM {
    constructor(html: string, options?: { contentType?: string });
    readonly window: { readonly document: Document };
  }
}
