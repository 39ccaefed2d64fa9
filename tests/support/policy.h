/*
 * tests/support/policy.h -- policy documents from JSON in tests; any failure fails the test at once.
 */
#pragma once

#include <stdio.h>

#include "base/file.h"
#include "policy/evaluate.h"
#include "tests/support/unit.h"

static inline json_t *policy_json(const char *text)
{
    json_t *json = NULL;
    struct error err = {0};

    if (!json_read(bytes_of_text(text), 1 << 20, &json, &err).ok) fail_msg("%s: %.200s", err.message, text);
    return json;
}

/** A file of policy/examples. */
static inline json_t *policy_example(const char *name)
{
    char path[512];
    struct buffer OWNED_BUFFER text = BUFFER(1 << 20);
    struct error err = {0};

    (void)snprintf(path, sizeof path, POLICY_EXAMPLES "/%s.json", name);
    if (!file_read(path, &text, &err).ok) fail_msg("%s", err.message);
    return policy_json(buffer_text(&text));
}

/** The four samples, as a list. */
static inline json_t *policy_examples(void)
{
    static const char *const names[] = {"org-floor", "health-ae", "difc-bank-models", "public-models"};
    json_t *array = json_array();

    for (size_t i = 0; i < COUNT(names); i++) assert_int_equal(json_array_append_new(array, policy_example(names[i])), 0);
    return array;
}
