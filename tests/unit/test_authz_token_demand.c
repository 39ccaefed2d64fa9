/* What an organisation demands of tokens, and which credentials are good enough. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "authz/token_demand.h"
#include "authz/trust_rules_priv.h"
#include "base/json.h"
#include "base/text.h"
#include "documents/format/persons.h"

#define NOW_MS INT64_C(1795000000000)
#define DAY_MS INT64_C(86400000)

static const struct uuid registry, acme = {{0xac}}, beta = {{0xbe}};

static struct document *document_of(const char *name, const char *tokens)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PERSONS_BYTES_MAX);
    OWNED_JSON body = json_pack("{s:s, s:o}", "issuer", "https://i", "tokens", json_loads(tokens, 0, NULL));
    const struct document_parts parts = {.kind = DOCUMENT_PERSONS,
                                         .scope = "",
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = NOW_MS,
                                         .expires_ms = NOW_MS + DAY_MS,
                                         .body = body};
    struct document *document = NULL;
    struct error err = {0};

    assert_non_null(body);
    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_PERSONS, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

/* acme demands a key, and 120 s; the registry, and all others, either. */
static struct trust_rules *rules_of(void)
{
    OWNED(document) *own = document_of("acme", "{\"bound_to\":\"key\",\"lifetime_max\":120}");
    OWNED(document) *others = document_of(PERSONS_REGISTRY, "{\"bound_to\":\"any\"}");
    const struct pinned_document pinned[] = {{own, 1}, {others, 2}};
    struct trust_rules *rules = NULL;
    struct error err = {0};

    must(trust_rules_of(pinned, 2, &rules, &err), &err);
    entry_place_note(&persons_entries_at(rules, 0)->place, &acme);
    return rules;
}

static const struct place_row {
    const char *name;
    const struct uuid *organisation;
    int64_t after_ms;
    bool any, key;
    unsigned lifetime_s;
} place_rows[] = {
    {"its own document", &acme, 1, false, true, 120},         {"without a document of its own", &beta, 1, true, false, 0},
    {"the registry", &registry, 1, true, false, 0},           {"before it begins", &acme, -60001, false, false, 0},
    {"after it has expired", &acme, DAY_MS, false, false, 0},
};

static void a_place(void **state)
{
    const struct place_row *row = *state;
    OWNED(trust_rules) *rules = rules_of();
    const struct token_demand demand = token_demand_of(rules, row->organisation, NOW_MS + row->after_ms);

    assert_int_equal(demand.any, row->any);
    assert_int_equal(demand.key, row->key);
    assert_false(demand.certificate);
    assert_int_equal(demand.lifetime_max_s, row->lifetime_s);
    const bool is_in_force = row->after_ms >= 0 && row->after_ms < DAY_MS;
    assert_int_equal(token_demand_shortest(rules, NOW_MS + row->after_ms), is_in_force ? 120 : 0);
}

static const struct row {
    const char *name, *says; /* NULL: it is good enough */
    struct token_demand demand;
    bool has_key, has_certificate;
    unsigned lifetime_s;
} rows[] = {
    {"nothing is demanded", NULL, {.any = false}, false, false, 0},
    {"an unbound token", "bound to the client here", {.any = true}, false, false, 300},
    {"a key", NULL, {.any = true}, true, false, 300},
    {"a certificate", NULL, {.any = true}, false, true, 300},
    {"a certificate, where a key is wanted", "bound to a key", {.key = true}, false, true, 300},
    {"a key, where a certificate is wanted", "bound to a certificate", {.certificate = true}, true, false, 300},
    {"where two organisations want one each", "bound to a certificate", {.key = true, .certificate = true}, true, false, 300},
    {"both", NULL, {.any = true, .key = true, .certificate = true}, true, true, 300},
    {"a life that is short enough", NULL, {.lifetime_max_s = 120}, false, false, 120},
    {"a second too long", "lives longer", {.lifetime_max_s = 120}, false, false, 121},
    {"a secret with each request", "a secret with each request", {.lifetime_max_s = 120}, false, false, 0},
};

static void a_credential(void **state)
{
    const struct row *row = *state;
    struct principal principal = {.kind = PRINCIPAL_ROBOT, .is_key_bound = row->has_key, .lifetime_s = row->lifetime_s};

    assert_true(text_copy(principal.confirmation, sizeof principal.confirmation, row->has_certificate ? "x" : ""));
    const char *why = token_demand_refusal(&row->demand, &principal);
    if (row->says == NULL) assert_null(why);
    else if (why == NULL || strstr(why, row->says) == NULL) fail_msg("%s", why == NULL ? "it is good enough" : why);
}

/* A document that was deleted from the database must not take its demand away. */
static void all_demand_a_binding_while_documents_are_not_sound(void **state)
{
    OWNED(trust_rules) *rules = rules_of();
    const struct token_demand before = token_demand_of(rules, &beta, NOW_MS - 60001);

    (void)state;
    assert_false(before.any);
    rules->kinds[DOCUMENT_PERSONS].is_sound = false;
    assert_true(token_demand_of(rules, &beta, NOW_MS - 60001).any);
    assert_false(token_demand_of(NULL, &beta, NOW_MS).any); /* a program without documents */
}

static void demands_add_up(void **state)
{
    struct token_demand demand = {.key = true, .lifetime_max_s = 300};

    (void)state;
    token_demand_add(&demand, &(struct token_demand){.certificate = true});
    assert_int_equal(demand.lifetime_max_s, 300);
    token_demand_add(&demand, &(struct token_demand){.any = true, .lifetime_max_s = 120});
    token_demand_add(&demand, &(struct token_demand){.lifetime_max_s = 600});
    assert_true(demand.key && demand.certificate && demand.any);
    assert_int_equal(demand.lifetime_max_s, 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_demand_a_binding_while_documents_are_not_sound),
                                       cmocka_unit_test(demands_add_up)};

    return RUN_TABLE(place_rows, a_place) + RUN_TABLE(rows, a_credential) + cmocka_run_group_tests(tests, NULL, NULL);
}
