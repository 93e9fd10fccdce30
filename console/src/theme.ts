export const themes = [
  ["", "Auto"],
  ["light", "Light"],
  ["dark", "Dark"],
] as const;

const key = "stillhere.theme";

export type Theme = (typeof themes)[number][0];

export function themeNow(): Theme {
  const kept = localStorage.getItem(key);
  return kept === "light" || kept === "dark" ? kept : "";
}

/** Sets the colors; an empty theme follows the system. */
export function setTheme(theme: Theme) {
  if (theme) {
    localStorage.setItem(key, theme);
    document.documentElement.dataset.theme = theme;
  } else {
    localStorage.removeItem(key);
    delete document.documentElement.dataset.theme;
  }
}
