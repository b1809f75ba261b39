"""Write docs/security.md from the attacks in this folder."""

from tests.arena.catalogue import PAGE, page

PAGE.write_text(page(), encoding="utf-8")
print(f"wrote {PAGE.name}")
