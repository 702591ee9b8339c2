// Offers the versions that stand beside this one (versions.json, written by `make site`). Where there is no such file, nothing is shown.
addEventListener("DOMContentLoaded", async () => {
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href);
  const beside = new URL("../", root);
  const here = root.pathname.split("/").at(-2);
  const page = location.pathname.slice(root.pathname.length);
  let names;
  try {
    const answer = await fetch(new URL("versions.json", beside));
    if (!answer.ok) return;
    names = await answer.json();
  } catch {
    return; // a page that was opened as a file
  }
  const place = document.querySelector(".sidebar-sticky");
  if (!place || !names.includes(here)) return;
  const label = document.createElement("label");
  label.className = "versions";
  label.textContent = "Version ";
  const choice = document.createElement("select");
  for (const name of names) choice.add(new Option(name, name, false, name === here));
  label.append(choice);
  place.querySelector(".sidebar-brand").after(label);
  choice.addEventListener("change", async () => {
    const same = new URL(`${choice.value}/${page}`, beside);
    const there = await fetch(same, { method: "HEAD" }).then((answer) => answer.ok, () => false);
    location.href = there ? same : new URL(`${choice.value}/docs/index.html`, beside);
  });
});
