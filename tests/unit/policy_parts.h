/*
 * tests/unit/policy_parts.h -- the cases of test_policy_templates.c that have sources of their own. Each runs its tables and returns the number of failures.
 */
#pragma once

int policy_export_cases(void);
int policy_places_cases(void);
int policy_text_cases(void);
