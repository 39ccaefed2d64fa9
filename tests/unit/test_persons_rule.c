/* What a document of persons may say. */
#include "tests/support/unit.h"

#include "base/json.h"
#include "documents/format/persons.h"

#define NOW_MS INT64_C(1795000000000)
#define DAY_MS INT64_C(86400000)

#define HEX16    "0123456789abcdef"
#define SUBJECT  "\"ext:" HEX16 HEX16 HEX16 HEX16 "\""
#define OF(more) "{\"issuer\":\"https://id.example\"" more "}"

static const struct row {
    const char *name, *organisation, *body, *says; /* says NULL: it is accepted */
} rows[] = {
    {"an issuer", "acme", OF(""), NULL},
    {"for all others", PERSONS_REGISTRY, OF(""), NULL},
    {"nobody is separate", "acme", OF(",\"separate\":[]"), NULL},
    {"a separate person", "acme", OF(",\"separate\":[" SUBJECT "]"), NULL},
    {"an organisation with points", "4.acme-uae", OF(""), NULL},
    {"bound tokens", "acme", OF(",\"tokens\":{\"bound_to\":\"any\"}"), NULL},
    {"bound tokens that live for a minute", "acme", OF(",\"tokens\":{\"bound_to\":\"key\",\"lifetime_max\":60}"), NULL},
    {"tokens of a certificate", PERSONS_REGISTRY, OF(",\"tokens\":{\"bound_to\":\"certificate\",\"lifetime_max\":900}"), NULL},
    {"tokens of another kind", "acme", OF(",\"tokens\":{\"bound_to\":\"address\"}"), "tokens.bound_to: any, key"},
    {"tokens that live too short", "acme", OF(",\"tokens\":{\"lifetime_max\":59}"), "tokens.lifetime_max: 60 to 900"},
    {"tokens that live too long", "acme", OF(",\"tokens\":{\"lifetime_max\":901}"), "tokens.lifetime_max: 60 to 900"},
    {"a lifetime of zero", "acme", OF(",\"tokens\":{\"lifetime_max\":0}"), "tokens.lifetime_max: 60 to 900"},
    {"a lifetime as a text", "acme", OF(",\"tokens\":{\"lifetime_max\":\"60\"}"), "tokens"},
    {"another demand", "acme", OF(",\"tokens\":{\"bound\":true}"), "bound"},
    {"tokens that are a text", "acme", OF(",\"tokens\":\"any\""), "tokens"},
    {"a name in large letters", "Acme", OF(""), "the name is that of an organisation"},
    {"a name that begins with a point", ".acme", OF(""), "the name is that of an organisation"},
    {"another name with a line", "_all", OF(""), "the name is that of an organisation"},
    {"no issuer", "acme", "{}", "issuer"},
    {"an issuer without TLS", "acme", "{\"issuer\":\"http://id.example\"}", "issuer: the exact"},
    {"an issuer with a blank", "acme", "{\"issuer\":\"https://id.example x\"}", "issuer: the exact"},
    {"two issuers", "acme", "{\"issuer\":[\"https://id.example\"]}", "issuer"},
    {"a person by its name", "acme", OF(",\"separate\":[\"alice@bank.example\"]"), "separate: ext: and the SHA-256"},
    {"a robot", "acme", OF(",\"separate\":[\"robot:" HEX16 HEX16 HEX16 HEX16 "\"]"), "separate: ext: and the SHA-256"},
    {"half a hash", "acme", OF(",\"separate\":[\"ext:" HEX16 "\"]"), "separate: ext: and the SHA-256"},
    {"a hash in large letters", "acme", OF(",\"separate\":[\"ext:0123456789ABCDEF" HEX16 HEX16 HEX16 "\"]"), "separate: ext:"},
    {"a number", "acme", OF(",\"separate\":[7]"), "separate: ext:"},
    {"no list", "acme", OF(",\"separate\":" SUBJECT), "separate: a list"},
    {"another member", "acme", OF(",\"also\":1"), "also"},
};

static struct document *document_of(const char *name, const char *text, const char *scope, int64_t days)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PERSONS_BYTES_MAX);
    OWNED_JSON body = json_loads(text, 0, NULL);
    const struct document_parts parts = {.kind = DOCUMENT_PERSONS,
                                         .scope = scope,
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = NOW_MS,
                                         .expires_ms = NOW_MS + days * DAY_MS,
                                         .body = body};
    struct document *document = NULL;
    struct error err = {0};

    assert_non_null(body);
    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_PERSONS, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

static void check_row(void **state)
{
    const struct row *row = *state;
    OWNED(document) *document = document_of(row->organisation, row->body, "", 30);
    struct persons_rule rule;
    struct error err = {0};

    assert_int_equal(persons_rule_read(document, &rule, &err).ok, row->says == NULL);
    if (row->says != NULL && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

static void the_head_is_bounded(void **state)
{
    OWNED(document) *scoped = document_of("acme", OF(""), "acme", 30);
    OWNED(document) *long_one = document_of("acme", OF(""), "", PERSONS_DAYS_MAX + 1);
    struct persons_rule rule;
    struct error err = {0};

    (void)state;
    assert_false(persons_rule_read(scoped, &rule, &err).ok);
    assert_non_null(strstr(err.message, "of the registry"));
    assert_false(persons_rule_read(long_one, &rule, &err).ok);
    assert_non_null(strstr(err.message, "within 732 days"));
}

static void separate_persons_are_bounded(void **state)
{
    (void)state;
    for (size_t count = PERSONS_SEPARATE_MAX; count <= PERSONS_SEPARATE_MAX + 1; count++) {
        struct buffer OWNED_BUFFER text = BUFFER(PERSONS_BYTES_MAX);
        struct persons_rule rule;
        struct error err = {0};
        must(buffer_add_text(&text, "{\"issuer\":\"https://i\",\"separate\":[", &err), &err);
        for (size_t i = 0; i < count; i++) must(buffer_format(&text, &err, "%s" SUBJECT, i == 0 ? "" : ","), &err);
        must(buffer_add_text(&text, "]}", &err), &err);
        OWNED(document) *document = document_of("acme", buffer_text(&text), "", 30);
        assert_int_equal(persons_rule_read(document, &rule, &err).ok, count == PERSONS_SEPARATE_MAX);
        if (count == PERSONS_SEPARATE_MAX) assert_int_equal(rule.separate_count, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_head_is_bounded), cmocka_unit_test(separate_persons_are_bounded)};

    return RUN_TABLE(rows, check_row) + cmocka_run_group_tests(tests, NULL, NULL);
}
