"""The counting rules of test_summary.py, on events as Bazel 4.2 writes them."""

import gzip
import pathlib
import tempfile
import unittest

import test_summary

GTEST = """<testsuites tests="4" failures="1"><testsuite name="Tree">
  <testcase name="PairsBottomUp" status="run" result="completed" classname="Tree" />
  <testcase name="Refuses3" status="run" result="completed" classname="Tree"><failure message="x"/></testcase>
  <testcase name="NeedsGpu" status="run" result="skipped" classname="Tree"><skipped message="y"/></testcase>
  <testcase name="DISABLED_Old" status="notrun" result="suppressed" classname="Tree" />
</testsuite></testsuites>"""
SCRIPT = '<testsuites><testsuite name="tidy"><testcase name="tidy" status="run"/></testsuite></testsuites>'
CRASH = ('<testsuites><testsuite name="a" errors="1"><testcase name="a" status="run">'
         '<error message="exited with error code 66"></error></testcase></testsuite></testsuites>')


def result(label, status, xml, shard=1, attempt=1):
    return {"id": {"testResult": {"label": label, "run": 1, "shard": shard, "attempt": attempt}},
            "testResult": {"status": status, "xml": xml}}


def finished(code):
    return {"id": {"buildFinished": {}}, "finished": {"exitCode": {"code": code} if code else {}}}


def count(*events):
    return test_summary.count_run("pass", list(events), read_report=lambda r: r.get("xml"))


class CountRun(unittest.TestCase):
    def test_google_test_cases_count_one_each(self):
        c = count(result("//a:t", "FAILED", GTEST), finished(3))
        self.assertEqual((c.passed, c.skipped, c.failures), (1, 2, ["pass: //a:t: Tree.Refuses3"]))

    def test_a_script_counts_as_one(self):
        self.assertEqual(count(result("//a:t", "PASSED", SCRIPT), finished(0)).passed, 1)

    def test_a_crash_is_one_failure(self):
        c = count(result("//a:t", "FAILED", CRASH), finished(3))
        self.assertEqual((c.passed, len(c.failures)), (0, 1))

    def test_failing_after_a_clean_report_is_a_failure(self):  # a leak found at exit
        c = count(result("//a:t", "FAILED", SCRIPT), finished(3))
        self.assertEqual((c.passed, c.failures), (1, ["pass: //a:t: FAILED"]))

    def test_a_missing_report_still_counts(self):
        c = count(result("//a:t", "PASSED", None), result("//a:u", "TIMEOUT", None), finished(3))
        self.assertEqual((c.passed, c.failures), (1, ["pass: //a:u: TIMEOUT"]))

    def test_shards_add_up_and_the_last_attempt_counts(self):
        c = count(result("//a:t", "FAILED", CRASH), result("//a:t", "PASSED", SCRIPT, attempt=2),
                  result("//a:t", "PASSED", SCRIPT, shard=2), finished(0))
        self.assertEqual((c.passed, c.failures), (2, []))

    def test_what_does_not_build_is_a_failure(self):
        c = count({"id": {"targetCompleted": {"label": "//a:b"}}, "completed": {}}, finished(1))
        self.assertEqual(c.failures, ["pass: //a:b: does not build"])

    def test_what_is_not_for_this_configuration_is_no_failure(self):
        skipped = {"id": {"targetCompleted": {"label": "//a:b"}}, "aborted": {"reason": "SKIPPED"}}
        failed = {"id": {"targetCompleted": {"label": "//a:c"}}, "aborted": {"reason": "ANALYSIS_FAILURE"}}
        self.assertEqual(count(skipped, finished(0)).failures, [])
        self.assertEqual(count(skipped, failed, finished(1)).failures, ["pass: //a:c: does not build"])

    def test_a_run_that_ends_early_or_finds_no_tests_is_a_failure(self):
        self.assertEqual(len(count().failures), 1)
        self.assertEqual(len(count(result("//a:t", "PASSED", SCRIPT)).failures), 1)
        self.assertEqual(len(count(finished(4)).failures), 1)
        self.assertEqual(len(count(finished(1)).failures), 1)


class Seconds(unittest.TestCase):
    def test_attempts_of_a_test_add_up_and_cached_results_cost_nothing(self):
        def timed(label, ms, **more):
            return {"id": {"testResult": {"label": label}}, "testResult": {"testAttemptDurationMillis": ms, **more}}
        seconds = test_summary.test_seconds([
            timed("//a:t", "1500"), timed("//a:t", "500"), timed("//a:u", "9000", cachedLocally=True),
            timed("//a:v", "9000", executionInfo={"cachedRemotely": True}), finished(0)])
        self.assertEqual(seconds, {"//a:t": 2.0})

    def test_compilers_linkers_and_tests_add_up_by_kind(self):
        def action(name, microseconds, category="action processing"):
            return {"name": name, "cat": category, "dur": microseconds}
        seconds = test_summary.action_seconds({"traceEvents": [
            action("Compiling a/b.cc", 2_000_000), action("Compiling a/c.cc", 1_000_000), action("Testing //a:t", 500_000),
            action("Linking a/t", 250_000), action("Creating runfiles", 7_000_000), action("Compiling", 1, "other"), {}]})
        self.assertEqual(seconds, {"compiling": 3.0, "testing": 0.5, "linking": 0.25})

    def test_a_run_without_a_whole_profile_has_none(self):
        with tempfile.TemporaryDirectory() as folder:
            events = pathlib.Path(folder, "run.json")
            self.assertEqual(test_summary.read_profile(events), {})
            whole = gzip.compress(b'{"traceEvents": [{"name": "x"}]}')
            events.with_suffix(".profile.gz").write_bytes(whole[:-12])
            self.assertEqual(test_summary.read_profile(events), {})
            events.with_suffix(".profile.gz").write_bytes(whole)
            self.assertEqual(len(test_summary.read_profile(events)["traceEvents"]), 1)


if __name__ == "__main__":
    unittest.main()
