"""Opening pages as a reader would, and noting what they do."""


def opened(browser, path):
    """Open a file offline; collect everything the page asks for, says and complains about."""
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 700})
    page = context.new_page()
    seen = {"requests": [], "dialogs": [], "errors": []}
    page.on("request", lambda request: seen["requests"].append(request.url))
    page.on("dialog", lambda dialog: (seen["dialogs"].append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: seen["errors"].append(str(error)))
    page.on("console", lambda message: seen["errors"].append(message.text))
    page.goto(path.as_uri())
    return page, seen
