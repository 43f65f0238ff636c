"""A log of Inspect with 10,000 samples: a report on it, beside Inspect's own data frame of it.

    python benchmarks/eval_logs.py [--samples N] [--keep FOLDER]

Inspect itself writes the log, with a model that always gives the same reply. Needs `inspect-ai` and
`pandas`, and the extra `report`. Prints CPU-seconds of whole processes, imports included, and what an
empty process that only imports the same package takes.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

FRAME = (
    "import sys; from inspect_ai.analysis import samples_df; assert len(samples_df(sys.argv[1]))"
)
IMPORT = "from inspect_ai.analysis import samples_df"
COMMAND = "import sys; from taskloom.cli.app import main; sys.argv[0] = 'taskloom'; main()"


def write_log(folder: Path, samples: int) -> Path:
    """Let Inspect evaluate a model on so many stories; return the log."""
    import inspect_ai
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import includes

    sentences = " ".join(f"Mary went to room {i}." for i in range(20))
    dataset = [
        Sample(
            id=f"q{i}",
            input=f"{sentences} {i}. Where is Mary?",
            target="room 19" if i % 3 else "room 7",
            metadata={"support": i % 5, "question": f"kind {i % 4}"},
        )
        for i in range(samples)
    ]
    task = inspect_ai.Task(dataset=MemoryDataset(dataset), scorer=includes(), name="where")
    reply = ModelOutput.from_content("mockllm/model", "Mary went last to a room.\nAnswer: room 19")
    # Without it Inspect counts tokens by a file that it downloads.
    reply.usage = ModelUsage(input_tokens=150, output_tokens=12, total_tokens=162)
    model = get_model("mockllm/model", custom_outputs=lambda *asked: reply)
    (done,) = inspect_ai.eval(task, model=model, log_dir=str(folder), display="none")
    if done.status != "success":
        raise SystemExit(f"Inspect failed: {done.error}")
    (path,) = folder.glob("*.eval")
    return path


def cpu(*command: str) -> float:
    """CPU-seconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="a folder for the log, which is used again")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        log = next(folder.glob("*.eval"), None) or write_log(folder, asked.samples)
        page = Path(temporary) / "page.html"
        print(f"{log.stat().st_size / 1e6:.1f} MB")
        for turn in (1, 2, 3):
            report = cpu("-c", COMMAND, "runs", "report", str(log), "-o", str(page))
            show = cpu("-c", COMMAND, "runs", "show", str(log))
            frame, start = cpu("-c", FRAME, str(log)), cpu("-c", IMPORT)
            print(
                f"{turn}: report {report:.2f}, show {show:.2f}, data frame {frame:.2f} CPU-s, of"
                f" which importing it {start:.2f}"
            )


if __name__ == "__main__":
    main()
