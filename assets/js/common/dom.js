/** Small helpers for elements. */

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} [className]
 * @param {string} [text]
 */
export function make(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

/**
 * A button that submits nothing.
 * @param {string} className
 * @param {string} text
 * @param {() => void} pressed
 */
export function button(className, text, pressed) {
  const node = make("button", className, text);
  node.type = "button";
  node.addEventListener("click", pressed);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * An SVG element.
 * @param {string} tag
 * @param {Record<string, string | number>} [attributes]
 * @param {string} [text]
 */
export function shape(tag, attributes = {}, text = "") {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  if (text) node.textContent = text;
  return node;
}

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no #${id}`);
  return node;
}

/**
 * @param {ParentNode} root
 * @param {string} selector
 * @returns {HTMLElement}
 */
export function find(root, selector) {
  const node = root.querySelector(selector);
  if (!(node instanceof HTMLElement)) throw new Error(`the page has no ${selector}`);
  return node;
}

/** @typedef {(id: string) => HTMLElement} Parts the elements of a template by their data-id */

/**
 * Fill a stage with a template that is fixed markup of this page: no text of a model, a prompt or an engine.
 * @param {HTMLElement} stage
 * @param {string} template
 * @returns {Parts}
 */
export function fill(stage, template) {
  stage.innerHTML = template;
  /** @type {Map<string | undefined, HTMLElement>} */
  const found = new Map();
  for (const node of stage.querySelectorAll("[data-id]")) {
    if (node instanceof HTMLElement) found.set(node.dataset.id, node);
  }
  return (id) => {
    const node = found.get(id);
    if (!node) throw new Error(`the template has no ${id}`);
    return node;
  };
}

/**
 * Change a node's text where it is another one: a text that is set again is laid out and painted again.
 * @param {Node} node
 * @param {string} text
 */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * Put these children into a node; those that are there already, equal to the last attribute, stay as they are.
 * @param {HTMLElement} node
 * @param {Element[]} children
 */
export function replace(node, children) {
  for (const [i, child] of children.entries()) {
    const old = node.children[i];
    if (!old) node.append(child);
    else if (!old.isEqualNode(child)) old.replaceWith(child);
  }
  while (node.children.length > children.length) node.lastElementChild?.remove();
}

/** Whether the visitor asked for little motion. */
export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
