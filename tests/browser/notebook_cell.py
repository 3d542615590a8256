"""Helper that shows a notebook widget in a browser: page bundle and Python widget, simulated connection.

Only the connection between them is simulated: where a notebook has a comm, messages are handed over directly.
"""

from base64 import b64encode

# What anywidget gives a view: a model with get, set, save_changes, on, off and send.
MODEL = """async ({script, traits}) => {
    const listeners = {};
    const tell = (event, ...given) => (listeners[event] ?? []).forEach((listener) => listener(...given));
    const changed = new Set();
    const model = {
        get: (name) => traits[name],
        set: (name, value) => {
            if (JSON.stringify(value) === JSON.stringify(traits[name])) return;
            traits[name] = value;
            changed.add(name);
            tell(`change:${name}`);
        },
        save_changes: () => {
            const update = Object.fromEntries([...changed].map((name) => [name, traits[name]]));
            changed.clear();
            if (Object.keys(update).length > 0) window.python_set(update);
        },
        on: (event, listener) => (listeners[event] ??= []).push(listener),
        off: (event, listener) => (listeners[event] = (listeners[event] ?? []).filter((one) => one !== listener)),
        send: async (content) => {
            for (const [said, buffers] of await window.python_ask(content)) {
                const views = buffers.map((text) =>
                    new DataView(Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)).buffer));
                tell("msg:custom", said, views);
            }
        },
    };
    window.heard = (update) => Object.entries(update).forEach(([name, value]) => model.set(name, value));
    const address = URL.createObjectURL(new Blob([script], {type: "text/javascript"}));
    const {default: widget} = await import(address);
    window.gone = widget.render({model, el: document.getElementById("cell")});
}"""

# A notebook around the cell, with a field to type in and rules of its own.
AROUND = """<!doctype html><html lang="en"><title>notebook</title><style>{css}</style>
<body style="margin: 17px; font: 21px serif"><p id="before">before</p><table id="table"><tr><td>1</td></tr></table>
<div tabindex="0" id="command">command mode</div><div id="cell" style="width: {width}px"></div></body></html>"""


def show_widget(browser, bench, width=1000):
    """Show a widget; return the page, and what it complained about."""
    context = browser.new_context(viewport={"width": width + 60, "height": 900})
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))

    def ask(content):
        said = []
        bench.send = lambda answer, buffers=(): said.append(
            (answer, [b64encode(one).decode() for one in buffers or ()])
        )
        bench._handle_custom_msg(content, [])
        return said

    page.expose_function("python_ask", ask)
    page.expose_function("python_set", bench.set_state)
    page.set_content(AROUND.format(css=bench._css, width=width))
    traits = {name: getattr(bench, name) for name in ("state", "selection", "_methods")}
    page.evaluate(MODEL, {"script": bench._esm, "traits": traits})
    return page, errors
