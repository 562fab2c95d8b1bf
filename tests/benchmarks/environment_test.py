"""What the machine refuses and what the ranks find out: ports, namespaces, data, weights.

Covers: doctor_command.cpp, harness/comm/store.cpp, harness/run/rank_main.cpp.
"""

import os
import socket
import unittest

from program import PROGRAM, QUICK, ProgramTest, can_unshare, free_port, with_cells

BERT = with_cells(QUICK, model=["bert_tiny"], micro_batch_size=[2], sequence_length=[16])


class PortTest(ProgramTest):
    def test_a_port_in_use(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            outcome = self.run_plan(QUICK, env={"MASTER_PORT": str(port)})
        self.assert_refused(outcome, f"port {port}", "MASTER_PORT", "unset", status=4)
        self.assertEqual(outcome.err.count("("), outcome.err.count(")"))
        self.assertNotIn("doctor", outcome.err, "it has a remedy already")

    def test_a_port_that_is_none(self):
        for port in ("abc", "70000", "-1"):
            with self.subTest(port=port):
                outcome = self.run_plan(QUICK, "--force", env={"MASTER_PORT": port})
                self.assert_refused(outcome, "'MASTER_PORT'", f"got {port}", "0 to 65535")

    def test_a_port_of_ones_own_choice(self):
        outcome = self.run_plan(QUICK, env={"MASTER_PORT": str(free_port())})
        self.assertEqual(outcome.status, 0, outcome.err)


class FilesOfRanksTest(ProgramTest):
    def test_a_bad_line_of_data(self):
        data = self.place / "data.jsonl"
        data.write_text('{"input_ids": [1, 2, 3], "label": 0}\n{"input_ids": [1, \n')
        outcome = self.run_plan(BERT, "--data", data)
        self.assert_refused(outcome, f"{data}:2")

    def test_missing_data(self):
        data = self.place / "none.jsonl"
        self.assert_refused(self.run_plan(BERT, "--data", data), str(data), "cannot be read")

    def test_truncated_weights(self):
        weights = self.place / "model.safetensors"
        header = b'{"classifier.weight":{"dtype":"F32","shape":[2,128],"data_offsets":[0,1024]}}'
        weights.write_bytes(len(header).to_bytes(8, "little") + header + bytes(1000))
        self.assert_refused(self.run_plan(BERT, "--weights", weights), str(weights))
        weights.write_bytes(b"\x10")
        outcome = self.run_plan(BERT, "--force", "--weights", weights)
        self.assert_refused(outcome, str(weights), "truncated")


@unittest.skipUnless(can_unshare("-U", "-r"), "user namespaces are forbidden here")
class ForbiddenNamespacesTest(ProgramTest):
    def run_forbidden(self, topologies):
        plan = self.plan_file(with_cells(QUICK, topology=topologies))
        script = (
            "echo 0 > /proc/sys/user/max_net_namespaces || exit 99\n"
            f'exec "{PROGRAM}" run "{plan}" --out "{self.place}/run"'
        )
        return self.call("-c", script, command=("unshare", "-U", "-r", "sh"))

    def test_single_node_rows_run(self):
        outcome = self.run_forbidden(["1x2", "2x1_1gbit"])
        self.assertEqual(outcome.status, 0, outcome.err)
        trials = {trial["cell"]["topology"]: trial for trial in self.trials()}
        self.assertEqual(trials["1x2"]["status"], "ok")
        self.assertEqual(trials["2x1_1gbit"]["status"], "skipped")
        reason = trials["2x1_1gbit"]["reason"]
        self.assertIn("max_net_namespaces", reason)
        self.assertIn(" (", reason, "no remedy")
        self.assertIn("skipped", outcome.out)
        self.assertIn(reason, outcome.out + outcome.err)

    def test_nothing_can_be_measured(self):
        outcome = self.run_forbidden(["2x1_1gbit"])
        self.assertEqual(outcome.status, 4, outcome.err)
        self.assertEqual(self.result()["exit_status"], 4)
        self.assertEqual([trial["status"] for trial in self.trials()], ["skipped"])


@unittest.skipUnless(os.geteuid() == 0 and can_unshare("-n"), "needs root")
class UnprivilegedTest(ProgramTest):
    def test_doctor_of_another_user(self):
        outcome = self.call("doctor", user=65534, group=65534, extra_groups=[])
        self.assertIn(outcome.status, (0, 4))
        self.assertEqual(outcome.err, "")
        self.assertRegex(outcome.out, r"(?m)^(ok  |warn)  .*(namespaces|multi-node)")


if __name__ == "__main__":
    unittest.main(verbosity=2)
