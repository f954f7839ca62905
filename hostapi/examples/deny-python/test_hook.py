"""The hook's methods, called in this process. `hookhost hook test` tests the program."""

import unittest
from hook import Hook, Refused


def begin(config, ncpus):
    outcome = Hook(config).execjob_begin({"job": {"id": "1.server", "resource_list": {"ncpus": ncpus}}})
    return bool(outcome and outcome["reject"])


class JobOfTooManyCPUsIsRejected(unittest.TestCase):
    def test_limit(self):
        self.assertFalse(begin({}, "4"))
        self.assertTrue(begin({}, "5"))

    def test_configured_limit(self):
        self.assertFalse(begin({"most": 8}, "5"))

    def test_no_number(self):
        with self.assertRaises(Refused):
            begin({}, "banana")


if __name__ == "__main__":
    unittest.main()
