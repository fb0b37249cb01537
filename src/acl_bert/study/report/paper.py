"""What a paper about the study includes: LaTeX tables and PDF figures, and one file with all."""

import shutil
from pathlib import Path

from acl_bert.files import atomic_folder
from acl_bert.study.exhibits import figures_of, tables_of
from acl_bert.study.grids import escape_latex
from acl_bert.study.layout import Layout

PREAMBLE = r"""\documentclass{article}
\usepackage{booktabs,graphicx}
\begin{document}
"""


def write_paper(study_folder: Path, layout: Layout) -> None:
    """Write the folder `paper/`: the study's `.tex` and `.pdf` files, and `all.tex` with all."""
    with atomic_folder(study_folder / "paper") as aside:
        pages = []
        for each, _ in tables_of(layout):
            shutil.copy(study_folder / "tables" / f"{each.name}.tex", aside)
            pages.append(rf"\input{{{each.name}}}")
        for each, entry in figures_of(layout):
            shutil.copy(study_folder / "figures" / f"{each.name}.pdf", aside)
            pages.append(
                "\\begin{figure}\n\\centering\n"
                rf"\includegraphics[width=\linewidth]{{{each.name}}}"
                f"\n\\caption{{{escape_latex(entry.caption)}}}\n\\end{{figure}}"
            )
        body = "\n\\clearpage\n".join(pages)
        (aside / "all.tex").write_text(f"{PREAMBLE}{body}\n\\end{{document}}\n", encoding="utf-8")
