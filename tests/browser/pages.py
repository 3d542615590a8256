"""Opening pages as a reader would, and noting what they do."""

import re


def opened(browser, path, scripts=True):
    """Open a file offline; collect everything the page asks for, says and complains about."""
    context = browser.new_context(
        offline=True, viewport={"width": 900, "height": 700}, java_script_enabled=scripts
    )
    page = context.new_page()
    seen = {"requests": [], "dialogs": [], "errors": []}
    page.on("request", lambda request: seen["requests"].append(request.url))
    page.on("dialog", lambda dialog: (seen["dialogs"].append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: seen["errors"].append(str(error)))
    page.on("console", lambda message: seen["errors"].append(message.text))
    page.goto(path.as_uri())
    return page, seen


def word(page, text):
    """Find a word of the tinted text; of several methods, of the first."""
    return page.get_by_role("button", name=re.compile(f"^{re.escape(text)}: ")).first
