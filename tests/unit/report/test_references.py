import json
from dataclasses import replace

import pytest
from campaign_cases import CAMPAIGN
from places import ROOT

from mcage.aging.nbti import MODEL_NAMES
from mcage.gpu.gating.spec import GatingSpec
from mcage.gpu.gating.study import Gating
from mcage.report.references import AUTHORS, TITLE, mcage_bibtex, references, references_of
from mcage.results.header import STUDIES
from mcage.spec import SweepSpec
from mcage.techniques import TECHNIQUES


def keys(papers):
    return {paper.key for paper in papers}


def test_all_that_ships_rests_on_a_paper():
    papers = references()
    named = {name for paper in papers for name in paper.techniques}
    assert named == set(TECHNIQUES)
    kinds = {name.partition("-")[0] for name in MODEL_NAMES}
    assert {name for paper in papers for name in paper.models} == kinds
    assert {name for paper in papers for name in paper.studies} == set(STUDIES) - {"sweep"}


def test_papers_of_the_citation_file_are_known_by_the_same_titles():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'title: "{TITLE}"' in text
    assert f'name: "{AUTHORS}"' in text
    cited = [line.split('"')[1] for line in text.splitlines() if line.startswith("    title:")]
    assert len(cited) == 4
    assert set(cited) <= {paper.title for paper in references()}


def header(**spec):
    return replace(CAMPAIGN, spec_toml=SweepSpec(**spec).to_toml())


def test_a_sweep_cites_its_techniques_and_its_model():
    cited = keys(references_of(header(techniques=("gr-guard",), aging={"model": "bhardwaj"})))
    assert cited == {
        "toca-diaz-rrcd",
        "tan-2016",
        "chen-2014",
        "bhardwaj-2006",
        "sarangi-2008",
        "schechter-2010",
    }


def test_variants_of_a_model_cite_what_the_model_cites():
    cited = keys(references_of(header(techniques=("rc",), aging={"model": "finfet-common"})))
    assert "zhang-2015" in cited
    assert "tiwari-2008" not in cited


def test_a_study_of_gpus_cites_neither_techniques_nor_error_correction():
    cited = keys(references_of(Gating(GatingSpec()).header))
    assert "chen-2014" in cited
    assert "schechter-2010" not in cited


def test_entries_are_bibtex():
    for text in (mcage_bibtex(), *(paper.bibtex() for paper in references())):
        assert text.count("{") == text.count("}")
        assert text.startswith("@")
    assert "None" not in "".join(paper.bibtex() for paper in references())


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_command(command, options):
    """Text and JSON hold the same entries."""
    code, out, err = command("cite", *options)
    assert (code, err) == (0, "")
    entries = [paper.bibtex() for paper in references()]
    if options:
        assert [paper["bibtex"] for paper in json.loads(out)["papers"]] == entries
    else:
        assert all(entry in out for entry in entries)
