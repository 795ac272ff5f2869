/** Light or dark: the system's choice until the reader makes another, which is remembered. */

const KEY = "headwater.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

export function offerTheme(button) {
  show(localStorage.getItem(KEY));
  button.onclick = () => {
    const isDark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : dark.matches;
    const chosen = isDark ? "light" : "dark";
    localStorage.setItem(KEY, chosen);
    show(chosen);
  };
}

function show(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
}
