/* tests/unit/policy_set_parts.h -- cases of test_policy_set that lie in files of their own. */
#pragma once

/** Where a run is. The number of failed tests. */
int policy_runner_cases(void);
