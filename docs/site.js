// The search takes a word that begins with "-" for one that pages must not have; here it is a flag.
document.addEventListener(
  "keyup",
  ({ target }) => {
    if (target.matches(".md-search__input")) target.value = target.value.replace(/(^|\s)-+/g, "$1")
  },
  true,
)
