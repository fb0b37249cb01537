"""What comments and pages point at is there: sections of docs/paper.md, files, headings."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PAPER = ROOT / "docs" / "paper.md"
PAGES = [ROOT / "README.md", ROOT / "config" / "README.md", *(ROOT / "docs").glob("*.md")]
CITING = {".py", ".yaml", ".smk", ".md", ".rst"}


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)


def anchor(heading: str) -> str:
    """GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def citing_files() -> Iterator[Path]:
    for folder in ("src", "config", "tests", "workflow", "docs"):
        files = (ROOT / folder).rglob("*")
        yield from (path for path in files if path.suffix in CITING)
    yield ROOT / "README.md"


def test_every_cited_section_of_the_paper_exists() -> None:
    sections = {number for each in headings(PAPER) for number in re.findall(r"^\d(?:\.\d)?", each)}
    cited = [
        (number, path.relative_to(ROOT))
        for path in citing_files()
        for number in re.findall(r"§(\d+(?:\.\d+)?)", path.read_text("utf-8"))
    ]
    assert len(cited) > 30
    assert [each for each in cited if each[0] not in sections] == []


def test_every_claim_has_a_section_of_its_own() -> None:
    claims = yaml.safe_load((ROOT / "config" / "claims.yaml").read_text("utf-8"))["claims"]
    numbered = [each for each in headings(PAPER) if each.startswith("1.") and "`" in each]
    assert [(each[:3], each.split("`")[1]) for each in numbered] == [
        (claim["section"].partition("§")[2], name) for name, claim in claims.items()
    ]


def test_pages_point_at_files_and_headings_that_exist() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        for path in re.findall(r"`((?:src|config|docs|tests|workflow)/[\w./-]+)`", text):
            assert (ROOT / path).exists(), f"{page}: {path}"
        for link in re.findall(r"\]\(([^)\s:]+)\)", text):
            path, _, fragment = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), f"{page}: {link}"
            # The second heading of one wording has the anchor …-1.
            anchors = {anchor(each) for each in headings(target)} if fragment else {fragment}
            assert {fragment, re.sub(r"-1$", "", fragment)} & anchors, f"{page}: {link}"


def test_the_architecture_names_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rooms = {path.parent.name for path in (ROOT / "src" / "acl_bert").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == rooms | {"cli"}
