// Making elements. Data becomes text and nothing else: no other module touches markup.

/** The element with an id; the document has it, or the page is broken. */
export const by = (id) => document.getElementById(id);

/** An element with a class and children; strings among them become text nodes. */
export function el(tag, name = "", ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}

/** A toggle's two looks at once. */
export function press(button, on) {
  button.setAttribute("aria-pressed", String(on));
}

/** Set a text only where it differs: nothing is laid out again for nothing. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
