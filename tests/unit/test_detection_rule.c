/* What a document of a detection rule may say. */
#include "tests/support/unit.h"

#include "base/json.h"
#include "detection/rules.h"

#define START INT64_C(1795000000000)

static const struct body_row {
    const char *name, *rule, *body, *says; /* says NULL: it is accepted */
} body_rows[] = {
    {"a default rule with other numbers", "denial-burst", "{\"detector\":\"denial-burst\",\"threshold\":5,\"window\":60}", NULL},
    {"a rule of its own", "night", "{\"detector\":\"mass-pull\",\"severity\":5}", NULL},
    {"a rule that is off", "new-country", "{\"detector\":\"new-country\",\"off\":true}", NULL},
    {"the name of another detector", "log-gap", "{\"detector\":\"clock-step\"}", "the name of another detector"},
    {"an unknown detector", "x", "{\"detector\":\"magic\"}", "there is no \"magic\""},
    {"no detector", "x", "{}", "\"detector\" is missing"},
    {"no threshold at all", "x", "{\"detector\":\"mass-pull\",\"threshold\":0}", "threshold: 1 to"},
    {"two TiB", "mass-pull-bytes", "{\"detector\":\"mass-pull-bytes\",\"threshold\":2097152}", NULL},
    {"two million of another detector", "x", "{\"detector\":\"mass-pull\",\"threshold\":2097152}", "threshold: 1 to 10000"},
    {"a window that is too long", "x", "{\"detector\":\"mass-pull\",\"window\":604801}", "window: 1 to"},
    {"a window where there is none", "x", "{\"detector\":\"break-glass\",\"window\":5}", "this detector has none"},
    {"a severity of nothing", "x", "{\"detector\":\"mass-pull\",\"severity\":6}", "severity: 1 to 5"},
    {"off as a word", "x", "{\"detector\":\"mass-pull\",\"off\":\"yes\"}", "off: true or false"},
    {"copies without a window", "laxer-copy", "{\"detector\":\"laxer-copy\",\"window\":0}", "window: 1 to"},
    {"copies that count", "laxer-copy", "{\"detector\":\"laxer-copy\",\"threshold\":5,\"window\":60}", NULL},
    {"an unknown member", "x", "{\"detector\":\"mass-pull\",\"mute\":5}", "there is no member \"mute\""},
};

static void says_what_is_wrong(void **state)
{
    const struct body_row *row = *state;
    struct buffer OWNED_BUFFER payload = BUFFER(DETECTION_BYTES_MAX);
    OWNED_JSON body = json_loads(row->body, 0, NULL);
    const struct document_parts parts = {.kind = DOCUMENT_DETECTION_RULE,
                                         .scope = "",
                                         .name = row->rule,
                                         .version = 1,
                                         .effective_ms = START,
                                         .expires_ms = START + 86400000,
                                         .body = body};
    OWNED(document) *document = NULL;
    struct detection_rule rule;
    struct error err = {0};

    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_DETECTION_RULE, buffer_bytes(&payload), &document, &err), &err);
    const bool ok = detection_rule_read(document, &rule, &err).ok;
    if (ok != (row->says == NULL)) fail_msg("%s", ok ? "it is accepted" : err.message);
    if (!ok && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

int main(void)
{
    return RUN_TABLE(body_rows, says_what_is_wrong);
}
