/**
 * Hand a file to the visitor.
 * @param {string} name
 * @param {string | Blob} content
 * @param {string} [type]
 */
export function save(name, content, type = "application/json") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
