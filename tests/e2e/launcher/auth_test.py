"""Runs that not everybody may join: a shared token, TLS, and what the refused are told (3.8)."""
import shutil
import subprocess
import time
import unittest

from launch_harness import LaunchTest, free_port, run_side_by_side

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")  # made at once, where RSA takes seconds


class AuthTest(LaunchTest):
    def start_node(self, rank, endpoint, *options, nodes=2, program=("/bin/true",), conf="", join_timeout=20):
        conf = ",".join(part for part in (f"join_timeout={join_timeout}", conf) if part)
        return self.start(f"--nnodes={nodes}", f"--node-rank={rank}", f"--rdzv-endpoint={endpoint}", f"--rdzv-conf={conf}", *options,
                          "--no-python", *program)

    def token(self, name, text):
        return f"--rdzv-token-file={self.file(name, text * 64)}"

    def end(self, *nodes):
        for node in nodes:
            node.terminate()
            node.communicate()


class Tokens(AuthTest):
    def test_nodes_with_the_same_token_form_a_run(self):
        endpoint = f"127.0.0.1:{free_port()}"
        for node in [self.start_node(rank, endpoint, self.token(f"t{rank}", "a")) for rank in (1, 0)]:
            self.finish(node, 0)

    def test_the_variable_names_the_file_as_well(self):
        endpoint = f"127.0.0.1:{free_port()}"
        path = self.file("t", "b" * 64)
        self.environment["LR_RDZV_TOKEN_FILE"] = str(path)
        for node in [self.start_node(rank, endpoint) for rank in (1, 0)]:
            self.finish(node, 0)

    def check_refused(self, host_options, node_options, *parts):
        endpoint = f"127.0.0.1:{free_port()}"
        host = self.start_node(0, endpoint, *host_options)
        time.sleep(0.5)
        node = self.start_node(1, endpoint, *node_options)
        _, err = self.finish(node, 77)
        for part in parts:
            self.assertIn(part, err)
        self.assertIsNone(host.poll(), "a refusal ended the host")
        self.end(host)

    def test_another_token_is_refused(self):
        self.check_refused([self.token("t", "a")], [self.token("u", "b")], "wrong token", "--rdzv-token-file")

    def test_no_token_is_refused_where_one_is_needed(self):
        self.check_refused([self.token("t", "a")], [], "is protected", "--rdzv-token-file")

    def test_a_host_without_a_token_is_refused(self):
        self.check_refused([], [self.token("u", "b")], "has no --rdzv-token-file")

    def test_after_a_refusal_the_right_one_still_gets_in(self):
        endpoint = f"127.0.0.1:{free_port()}"
        good = self.token("t", "a")
        host = self.start_node(0, endpoint, good)
        time.sleep(0.3)
        self.finish(self.start_node(1, endpoint, self.token("u", "b")), 77)
        node = self.start_node(1, endpoint, good)
        self.finish(node, 0)
        self.finish(host, 0)

    def test_a_token_that_is_too_short_is_a_mistake(self):
        node = self.start_node(0, f"127.0.0.1:{free_port()}", f"--rdzv-token-file={self.file('t', 'abc')}")
        _, err = self.finish(node, 2)
        self.assertIn("32", err)


@unittest.skipIf(shutil.which("openssl") is None, "the command `openssl`, which makes the certificates, is missing")
class Tls(AuthTest):
    def setUp(self):
        super().setUp()
        self.openssl("req", "-x509", *NEW_KEY, "-days", "2", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem")
        self.certificate("node", "IP:127.0.0.1,DNS:localhost")

    def openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def certificate(self, name, names):
        self.openssl("req", *NEW_KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        self.file("names", f"subjectAltName={names}\n")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names",
                     "-out", f"{name}.pem")

    def tls(self, name="node"):
        return f"tls_ca={self.folder}/ca.pem,tls_cert={self.folder}/{name}.pem,tls_key={self.folder}/{name}.key"

    def check_forms(self, *confs, host="127.0.0.1"):
        endpoint = f"{host}:{free_port()}"
        for node in [self.start_node(rank, endpoint, conf=confs[rank]) for rank in (1, 0)]:
            self.finish(node, 0)

    def check_never_meet(self, host_conf, node_conf):
        endpoint = f"127.0.0.1:{free_port()}"
        host = self.start_node(0, endpoint, conf=host_conf)
        time.sleep(0.5)
        node = self.start_node(1, endpoint, conf=f"{node_conf},is_host=0".strip(","), join_timeout=4)  # many tries of a few milliseconds
        _, err = self.finish(node, 75)
        self.assertIn("no node serves the rendezvous", err)
        self.end(host)
        return err

    def test_all_nodes_with_certificates(self):
        self.check_forms(self.tls(), self.tls())

    def test_a_name_as_endpoint(self):
        self.check_forms(self.tls(), self.tls(), host="localhost")

    def test_a_node_that_never_serves_needs_the_authority_alone(self):
        self.check_forms(self.tls(), f"tls_ca={self.folder}/ca.pem,is_host=0")

    def test_mutual(self):
        self.check_forms(self.tls() + ",tls_mutual=1", self.tls() + ",tls_mutual=1")

    def test_mutual_refuses_a_node_without_a_certificate(self):
        self.check_never_meet(self.tls() + ",tls_mutual=1", f"tls_ca={self.folder}/ca.pem")

    def test_a_node_without_tls_does_not_get_in(self):
        self.assertIn("it uses no TLS", self.check_never_meet(self.tls(), ""))

    def test_a_host_without_tls_is_not_believed(self):
        self.assertIn("it uses TLS", self.check_never_meet("", self.tls()))

    def test_a_certificate_of_another_host_is_not_believed(self):
        self.certificate("other", "DNS:elsewhere.example")
        self.check_never_meet(self.tls("other"), self.tls())

    def test_a_certificate_of_another_authority_is_not_believed(self):
        self.openssl("req", "-x509", *NEW_KEY, "-days", "2", "-subj", "/CN=stranger", "-addext", "subjectAltName=IP:127.0.0.1",
                     "-keyout", "own.key", "-out", "own.pem")
        self.check_never_meet(self.tls("own"), self.tls())

    def test_tls_and_token_together(self):
        endpoint = f"127.0.0.1:{free_port()}"
        for node in [self.start_node(rank, endpoint, self.token(f"t{rank}", "a"), conf=self.tls()) for rank in (1, 0)]:
            self.finish(node, 0)

    def test_a_missing_file_is_a_mistake(self):
        node = self.start_node(0, f"127.0.0.1:{free_port()}", conf=f"tls_ca={self.folder}/none.pem")
        _, err = self.finish(node, 2)
        self.assertIn("none.pem", err)


if __name__ == "__main__":
    run_side_by_side(lanes=8)
