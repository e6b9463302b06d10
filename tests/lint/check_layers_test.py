"""The layer check finds a breach of each kind in a small tree that has them."""
import importlib.util
import io
import contextlib
import pathlib
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/lint/check_layers.py"


class CheckLayers(unittest.TestCase):
    def check(self, files):
        spec = importlib.util.spec_from_file_location("check_layers", TOOL)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            module.ROOT = pathlib.Path(folder)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                code = module.main()
            return code, out.getvalue()

    def test_allowed_includes_pass(self):
        self.assertEqual(self.check({"worker/comm/a.cc": '#include "common/base/status.h"\n#include <ATen/ATen.h>\n'})[0], 0)

    def test_each_kind_of_breach_is_named(self):
        for name, text, fact in (
            ("common/base/a.h", '#include "common/io/json.h"\n', "common/base may not include common/io/json.h"),
            ("launcher/cli/a.cc", '#include "worker/comm/communicator.h"\n', "may not include worker/comm"),
            ("launcher/cli/a.cc", "#include <torch/torch.h>\n", "no LibTorch here"),
            ("worker/optim/a.cc", '#include "worker/data/batch.h"\n', "worker/optim may not include"),
            ("worker/train/a.h", "/// (pure)\n#include <fstream>\n", "a (pure) file may not include fstream"),
        ):
            with self.subTest(fact=fact):
                code, output = self.check({name: text})
                self.assertEqual(code, 1)
                self.assertIn(fact, output)


if __name__ == "__main__":
    unittest.main()
