"""What a paper about the study includes: LaTeX tables and PDF figures, and one file with all."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from acl_bert.files import atomic_folder
from acl_bert.study.grids import escape_latex

PREAMBLE = r"""\documentclass{article}
\usepackage{booktabs,graphicx}
\begin{document}
"""


def write_paper(
    study_folder: Path,
    tables: Sequence[str],
    figures: Sequence[str],
    captions: Mapping[str, str],
) -> None:
    """Write the folder `paper/`: the study's `.tex` and `.pdf` files, and `all.tex` with all.

    `captions` are by `<name>_figure`; a table's file has its own.
    """
    with atomic_folder(study_folder / "paper") as aside:
        parts = []
        for name in tables:
            shutil.copy(study_folder / "tables" / f"{name}.tex", aside)
            parts.append(rf"\input{{{name}}}")
        for name in figures:
            shutil.copy(study_folder / "figures" / f"{name}.pdf", aside)
            caption = escape_latex(" ".join(captions.get(f"{name}_figure", name).split()))
            parts.append(
                "\\begin{figure}\n\\centering\n"
                rf"\includegraphics[width=\linewidth]{{{name}}}"
                f"\n\\caption{{{caption}}}\n\\end{{figure}}"
            )
        body = "\n\\clearpage\n".join(parts)
        (aside / "all.tex").write_text(f"{PREAMBLE}{body}\n\\end{{document}}\n", encoding="utf-8")
