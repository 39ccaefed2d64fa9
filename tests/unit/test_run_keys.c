/* Withdrawals of a runner's key: of several the earliest `since` counts, in whatever order the log has them. */
#include "training/format/run_keys.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "tests/support/unit.h"

#define NOW_MS INT64_C(1795687200000) /* 2026-11-26T10:00:00Z */
#define DAY_MS INT64_C(86400000)
#define RUNNER "7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"

/* since: NULL: the enrolment */
static struct document *document_of(const struct ecdsa_key *key, const char *since)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192), text = BUFFER(128);
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char name[ECDSA_THUMBPRINT_SIZE];
    struct document *document = NULL;
    struct error err = {0};

    ecdsa_key_public(key, point);
    ecdsa_thumbprint(point, name);
    assert_true(text_base64(&text, BASE64_URL, (struct bytes){point, sizeof point}, &err).ok);
    OWNED_JSON body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:[s], s:s*}", "runner", RUNNER, "public_key",
                                buffer_text(&text), "pool", "uae-gpu", "region", "local/dxb", "isolation", "cgroup-v2",
                                "assurance", 3, "devices", 1, "jurisdictions", "AE", "since", since);
    const struct document_parts parts = {.kind = DOCUMENT_RUNNER,
                                         .scope = "",
                                         .name = name,
                                         .version = since == NULL ? 1 : 2,
                                         .effective_ms = NOW_MS - DAY_MS,
                                         .expires_ms = NOW_MS + 100 * DAY_MS,
                                         .withdrawn = since == NULL ? NULL : "stolen",
                                         .body = body};
    if (!document_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    if (!document_read_payload(DOCUMENT_RUNNER, buffer_bytes(&payload), &document, &err).ok) fail_msg("%s", err.message);
    return document;
}

#define EARLY "2026-11-26T09:00:00Z"
#define LATE  "2026-11-26T11:00:00Z"
#define LATER "2026-11-26T12:00:00Z"

static const struct row {
    const char *name;
    const char *withdrawals[3]; /* in the order of the log */
    enum error_kind wanted;
} rows[] = {
    {"no withdrawal", {NULL}, ERROR_NONE},
    {"a withdrawal of later results", {LATE}, ERROR_NONE},
    {"two of later results", {LATER, LATE}, ERROR_NONE},
    {"a withdrawal since then", {EARLY}, ERROR_DENIED},
    {"the earlier one first", {EARLY, LATE}, ERROR_DENIED},
    {"the later one first", {LATE, EARLY}, ERROR_DENIED},
    {"the earliest in between", {LATER, EARLY, LATE}, ERROR_DENIED},
};

static void the_earliest_since_counts(void **state)
{
    const struct row *row = *state;
    struct run_keys keys = {.count = 0};
    struct runner_key runner;
    OWNED(ecdsa_key) *key = NULL;
    struct error err = {0};

    assert_true(ecdsa_key_new(&key, &err).ok);
    keys.each[keys.count++] = (struct run_key){document_of(key, NULL), 1, NOW_MS - DAY_MS};
    for (size_t i = 0; i < 3 && row->withdrawals[i] != NULL; i++, keys.count++)
        keys.each[keys.count] = (struct run_key){document_of(key, row->withdrawals[i]), 2 + i, NOW_MS + (int64_t)i};
    const struct run_runner_use use = {"acme/models", NOW_MS - 1000, NOW_MS};
    const struct result found = run_keys_runner(&keys, keys.each[0].document->name, &use, &runner, &err);
    assert_int_equal(found.ok ? ERROR_NONE : err.kind, row->wanted);
    run_keys_done(&keys);
}

int main(void)
{
    return RUN_TABLE(rows, the_earliest_since_counts);
}
