"""What operator and agents write of thousands of images stays far from what an object may be."""

import base64
import gzip
import json
import random
from typing import Any

import pytest

from sweyard_api.constants import LABEL_CACHE
from sweyard_operator.build.cache_agent import build_assignment
from sweyard_operator.cache_agent.envelope import MOST_BYTES as MOST_UNPACKED
from sweyard_operator.cache_agent.envelope import seal, sealed, unseal
from sweyard_operator.cache_agent.protocol import (
    REPORT_KEY,
    Assignment,
    ImageReport,
    ImageState,
    NodeReport,
    report_name,
)
from sweyard_operator.observe.image_cache import LABEL_ROLE, ROLE_REPORT, read_assigned, read_reports

MOST_BYTES = 256 * 1024
CACHE = {
    "apiVersion": "sweyard.dev/v1alpha1",
    "kind": "ImageCache",
    "metadata": {"name": "c", "namespace": "n", "uid": "u"},
}
RANDOM = random.Random(0)
# As R2E-Gym has them: a repository each, a commit as the tag.
IMAGES = tuple(
    f"docker.io/namanjain12/{RANDOM.choice(('pandas', 'numpy'))}_final:{RANDOM.randbytes(20).hex()}"
    for _ in range(4_578)
)


def report_object(node: str, report: NodeReport, **content: Any) -> dict[str, Any]:
    """As the agent of `node` writes it."""
    labels = {LABEL_CACHE: "c", LABEL_ROLE: ROLE_REPORT}
    written = content or seal(REPORT_KEY, report.model_dump_json(exclude_defaults=True))
    return {"metadata": {"name": report_name("c", node), "labels": labels}, **written}


def test_thousands_of_images_on_one_node_fit_into_its_two_objects() -> None:
    told = build_assignment(CACHE, "n1", Assignment(images=IMAGES, max_parallel_pulls=3))
    said = ImageReport(state=ImageState.CACHED, num_bytes=1_234_567_890, own=True)
    images = {
        image: said.model_copy(update={"num_bytes": RANDOM.randrange(4 * 10**9), "digest": RANDOM.randbytes(6).hex()})
        for image in IMAGES
    }
    report = NodeReport(node="n1", images=images)
    reported = report_object("n1", report)
    assert max(len(json.dumps(item)) for item in (told, reported)) < MOST_BYTES
    assert read_assigned("c", [told]) == {"n1": IMAGES}
    assert read_reports([reported]) == {"n1": report}


def test_what_is_small_stays_readable() -> None:
    assert seal("a.json", '{"x":1}') == {"data": {"a.json": '{"x":1}'}}


def test_the_same_text_is_written_once() -> None:
    text = json.dumps({"images": IMAGES})
    assert seal("a.json", text) == seal("a.json", text)
    assert unseal(sealed(seal("a.json", text), "a.json")) == text


def test_a_report_that_speaks_for_another_node_or_cannot_be_read_counts_as_absent() -> None:
    own, other = [NodeReport(node=node, images={}) for node in ("n1", "n2")]
    items = [report_object("n1", own), report_object("n3", other), report_object("n4", own, data={REPORT_KEY: "{}"})]
    assert read_reports(items) == {"n1": own}


BOMB = base64.b64encode(gzip.compress(bytes(MOST_UNPACKED + 1))).decode()
BROKEN = base64.b64encode(gzip.compress(b"x" * 100)[:-20]).decode()


@pytest.mark.parametrize(
    "text", ["nonsense!", "bm9uc2Vuc2U=", BOMB, BROKEN], ids=["no-base64", "no-gzip", "bomb", "broken"]
)
def test_what_cannot_be_opened_is_said_in_one_way(text: str) -> None:
    with pytest.raises(ValueError, match="neither JSON nor gzip"):
        unseal(text)
