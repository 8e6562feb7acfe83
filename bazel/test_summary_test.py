"""The counting rules of test_summary.py, on events as Bazel 4.2 writes them."""

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

    def test_a_run_that_ends_early_or_finds_no_tests_is_a_failure(self):
        self.assertEqual(len(count().failures), 1)
        self.assertEqual(len(count(result("//a:t", "PASSED", SCRIPT)).failures), 1)
        self.assertEqual(len(count(finished(4)).failures), 1)
        self.assertEqual(len(count(finished(1)).failures), 1)


if __name__ == "__main__":
    unittest.main()
