/*
 * tests/unit/policy_set_change_parts.h -- the cases of test_policy_set_change.c that have a source of their own. Each runs its tables and returns the number of failures.
 */
#pragma once

int policy_chain_cases(void);
int restriction_chain_cases(void);
