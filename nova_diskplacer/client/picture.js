// Shows the hosts that the filter names, and marks the vdisks that it names.
const filter = document.getElementById('filter');
const shown = document.getElementById('shown');
const names = (text, ...values) =>
  values.some(value => value.toLowerCase().includes(text));
function show() {
  const text = filter.value.trim().toLowerCase();
  const hosts = document.querySelectorAll('.host');
  let visible = 0;
  for (const host of hosts) {
    let found = names(text, host.dataset.host);
    for (const {dataset: disk} of host.querySelectorAll('.disk'))
      found ||= disk.disk.startsWith(text) ||
        names(text, disk.health, disk.states);
    for (const vdisk of host.querySelectorAll('.vdisk')) {
      const {server, name, volume, status} = vdisk.dataset;
      const chosen = text !== '' && names(text, server, name, volume, status);
      vdisk.classList.toggle('chosen', chosen);
      found ||= chosen;
    }
    host.hidden = !found;
    visible += found;
  }
  shown.textContent = text && `${visible} of ${hosts.length} hosts`;
}
function choose(text) {
  // a second click shows everything again
  filter.value = filter.value === text ? '' : text;
  show();
}
filter.addEventListener('input', show);
// a click on a vdisk marks all of its server's, one on a finding its subject
document.addEventListener('click', ({target}) => {
  const server = target.closest('#hosts .vdisk')?.dataset.server;
  const subject = target.closest('#findings button')?.dataset.subject;
  if (server || subject) choose(server || subject);
});
