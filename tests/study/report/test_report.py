"""The page: well formed, whole in itself, and nothing in it but text from what it shows."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import unquote

import pytest
from study.report.pages import Page, write_png

from acl_bert.study.claims.ledger import VERDICTS
from acl_bert.study.report.report import (
    VERDICT_MARKS,
    Block,
    ClaimView,
    Command,
    Entry,
    Facts,
    FigureView,
    Files,
    Group,
    Notes,
    Part,
    Report,
    Section,
    TableView,
    picture_size,
    write_report,
)


def table(rows: Sequence[Sequence[str]], heading: str = "Scores") -> TableView:
    entries = [[Entry(text) for text in row] for row in rows]
    return TableView(["method", "score"], [Group(entries)], heading, ["A note."])


def all_blocks(study: Path) -> list[Block]:
    claims = [
        ClaimView(
            f"Claim {verdict}",
            verdict,
            "a reason",
            ["statistic", "p"],
            [["gain", "0.04"]],
            ["more"],
        )
        for verdict in VERDICTS
    ]
    return [
        Notes(["A paragraph."]),
        Notes(["An item."], listed=True),
        Facts({"Commits": ["abc (2 runs)", "def (1 runs)"]}),
        Files([study / "tables" / "a b.csv"]),
        Command("To copy:", "make ui"),
        FigureView("Curves", write_png(study / "figures" / "curves.png"), "What it shows.", []),
        table([["ACL", "64.1 ± 2.0"]]),
        Part("Exits", "A caption.", [table([["JT", "50.0"]], "minilm")], notes=["Shared."]),
        *claims,
    ]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Page]:
    def written(*blocks: Block, **of_report: object) -> Page:
        path = tmp_path / "study" / "report.html"
        sections = [Section("first", "First", blocks), Section("second", "Second", [])]
        write_report(Report("Title", "Summary", sections, **of_report), path)  # type: ignore[arg-type]
        return Page(path.read_text("utf-8"))

    return written


def test_a_page_is_well_formed(write: Callable[..., Page], tmp_path: Path) -> None:
    page = write(*all_blocks(tmp_path / "study"), warning="Not real", reasons=["Generated."])
    assert not page.faults
    assert len(page.all("h1")) == 1
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    inner = [a["href"][1:] for a in page.all("a") if a["href"].startswith("#")]
    assert inner == ["content", "first", "second"] and set(inner) <= set(ids)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    assert "Not real" in page.text and "Generated." in page.text


def test_nothing_is_loaded_from_elsewhere(write: Callable[..., Page], tmp_path: Path) -> None:
    page = write(*all_blocks(tmp_path / "study"))
    loaded = [attributes["src"] for _, attributes in page.tags if "src" in attributes]
    loaded += [attributes["href"] for attributes in page.all("link")]
    assert len(loaded) == 2 and all(address.startswith("data:") for address in loaded)
    html = (tmp_path / "study" / "report.html").read_text("utf-8")
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|import\(", html)
    (policy,) = [m["content"] for m in page.all("meta") if "http-equiv" in m]
    assert "default-src 'none'" in policy and "http" not in policy


def test_what_is_shown_stays_text(write: Callable[..., Page], tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>\"'&"
    picture = write_png(tmp_path / "study" / "figures" / "a.png")
    page = write(
        Notes([evil]),
        Notes([evil], listed=True),
        Facts({evil: [evil]}),
        Files([tmp_path / 'study/a"><script>.csv']),
        Command(evil, evil),
        FigureView(evil, picture, evil, []),
        TableView([evil], [Group([[Entry(evil, code=True)]], evil)], evil, [evil]),
        Part(evil, evil, [], notes=[evil]),
        ClaimView(evil, "supported", evil, [evil], [[evil]], [evil]),
        warning=evil,
        reasons=[evil],
    )
    assert len(page.all("script")) == 1 and not page.faults
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert page.text.count(evil) == 23
    (picture_shown,) = page.all("img")
    assert picture_shown["alt"] == f"{evil}. {evil}"


def test_each_verdict_has_a_mark_its_word_and_its_colour(
    write: Callable[..., Page], tmp_path: Path
) -> None:
    assert set(VERDICT_MARKS) == set(VERDICTS)
    page = write(*all_blocks(tmp_path / "study"))
    shown = [a["class"].split()[1:] for a in page.all("span") if "badge" in a.get("class", "")]
    assert shown == [[verdict.replace(" ", "-")] for verdict in VERDICTS]
    style = (tmp_path / "study" / "report.html").read_text("utf-8")
    for verdict, mark in VERDICT_MARKS.items():
        assert verdict in page.texts and mark in page.texts
        assert f".badge.{verdict.replace(' ', '-')} {{" in style


def test_a_figure_is_embedded_at_its_size(write: Callable[..., Page], tmp_path: Path) -> None:
    picture = write_png(tmp_path / "study" / "figures" / "a.png", 1000, 500)
    assert picture_size(picture) == (1000, 500)
    page = write(FigureView("A", picture, "Caption.", [picture.with_suffix(".pdf")]))
    (shown,) = page.all("img")
    assert shown["src"].startswith("data:image/png;base64,iVBOR")
    assert (shown["width"], shown["height"]) == ("600", "300")
    assert "figures/a.pdf" in [a["href"] for a in page.all("a")]


def test_files_are_linked_from_where_the_page_lies(
    write: Callable[..., Page], tmp_path: Path
) -> None:
    page = write(
        Files([tmp_path / "study" / "tables" / "a b#1.csv"]),
        TableView(
            ["run"], [Group([[Entry("1", path=tmp_path / "study" / "runs" / "x@y=1")]])], "T"
        ),
    )
    found = [unquote(a["href"]) for a in page.all("a") if not a["href"].startswith("#")]
    assert found == ["tables/a b#1.csv", "runs/x@y=1"]
    assert found[0] in page.texts  # its folder too: files of several folders share a name
    assert "%23" in next(a["href"] for a in page.all("a") if "tables" in a["href"])


def test_a_table_has_headings_and_groups(write: Callable[..., Page]) -> None:
    rows = [[Entry("ACL"), Entry("64.1 ± 2.0†", best=True)], [Entry("CE"), Entry("–")]]
    page = write(
        TableView(
            ["method", "score"], [Group(rows[:1]), Group(rows[1:], "Published")], "T", open=False
        )
    )
    assert [a["scope"] for a in page.all("th")] == ["col", "col", "row", "rowgroup", "row"]
    assert len(page.all("strong")) == 1 and len(page.all("tbody")) == 2
    (folded,) = [a for a in page.all("details") if a.get("class") == "table"]
    assert "open" not in folded
    (box,) = [a for a in page.all("div") if a.get("class") == "scroll"]
    assert box["role"] == "region" and box["aria-label"] == "T" and box["tabindex"] == "0"
