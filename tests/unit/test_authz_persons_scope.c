/* Who is a person of which organisation, as signed documents say it. */
#include "tests/support/unit.h"

#include "authz/snapshot.h"
#include "authz/trust_rules_priv.h"
#include "base/json.h"

#define NOW_MS INT64_C(1795000000000)
#define DAY_MS INT64_C(86400000)

/* Subjects of the issuers i, j and k. */
static struct principal subject_of(const char *name)
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL};

    (void)snprintf(principal.issuer, sizeof principal.issuer, "https://%c", name[0]);
    (void)snprintf(principal.subject, sizeof principal.subject, "%s", name + 2);
    return principal;
}

static struct document *document_of(const char *name, const char *issuer, const char *separate, int64_t from_ms)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PERSONS_BYTES_MAX);
    const struct principal alone = subject_of(separate);
    char key[PRINCIPAL_KEY_SIZE];
    struct document *document = NULL;
    struct error err = {0};

    principal_key(&alone, key);
    OWNED_JSON body = json_pack("{s:s, s:[s]}", "issuer", issuer, "separate", key);
    const struct document_parts parts = {.kind = DOCUMENT_PERSONS,
                                         .scope = "",
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = from_ms,
                                         .expires_ms = from_ms + 2 * DAY_MS,
                                         .body = body};
    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_PERSONS, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

static const struct uuid registry, acme = {{0xac}}, beta = {{0xbe}}, gone = {{0x90}};

/* acme has its persons from i, and j/alice is separate; gone, from k, was deleted; the registry and all others from j, and k/dora is separate. */
static struct authz_snapshot *snapshot_at(int64_t from_ms)
{
    OWNED(document) *own = document_of("acme", "https://i", "j/alice", from_ms);
    OWNED(document) *deleted = document_of("gone", "https://k", "k/eve", from_ms);
    OWNED(document) *others = document_of(PERSONS_REGISTRY, "https://j", "k/dora", from_ms);
    const struct pinned_document pinned[] = {{own, 1}, {deleted, 2}, {others, 3}};
    OWNED(trust_rules) *rules = NULL;
    struct authz_snapshot *snapshot = NULL;
    struct error err = {0};

    must(trust_rules_of(pinned, COUNT(pinned), &rules, &err), &err);
    assert_int_equal(persons_entries_count(rules), COUNT(pinned));
    for (size_t i = 0; i < COUNT(pinned); i++)
        if (strcmp(persons_entries_at(rules, i)->name, "acme") == 0)
            entry_place_note(&persons_entries_at(rules, i)->place, &acme);
    const struct authz_parts parts = {.rules = rules};
    must(authz_snapshot_build(&parts, &snapshot, &err), &err);
    return snapshot;
}

static const struct row {
    const char *name;
    const struct uuid *organisation;
    const char *one, *other;
    int64_t after_ms; /* since the documents began */
    bool is_known, are_others;
} rows[] = {
    {"two of the issuer of persons", &acme, "i/alice", "i/bob", 1, true, true},
    {"one person", &acme, "i/alice", "i/alice", 1, true, false},
    {"of another issuer nobody is a person", &acme, "j/carol", "i/alice", 1, false, false},
    {"nor two of them", &acme, "j/carol", "j/bob", 1, false, false},
    {"but one that is separate", &acme, "j/alice", "i/alice", 1, true, true},
    {"also by the registry's document", &acme, "k/dora", "i/alice", 1, true, true},
    {"two that are separate", &acme, "k/dora", "j/alice", 1, true, true},
    {"separate is not two", &acme, "k/dora", "k/dora", 1, true, false},
    {"without a document of its own", &beta, "j/carol", "j/bob", 1, true, true},
    {"the separate one of another organisation is not", &beta, "i/alice", "j/bob", 1, false, false},
    {"a deleted organisation's document says nothing", &gone, "k/eve", "j/bob", 1, false, false},
    {"the registry itself", &registry, "j/alice", "j/bob", 1, true, true},
    {"a minute before they begin, because the versions before have ended", &acme, "j/carol", "j/bob", -60000, false, false},
    {"before that", &acme, "j/carol", "j/bob", -60001, true, true},
    {"then different issuers are one person", &acme, "j/alice", "i/alice", -60001, true, false},
    {"after they have expired", &acme, "j/carol", "j/bob", 2 * DAY_MS, true, true},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    OWNED(authz_snapshot) *snapshot = snapshot_at(NOW_MS);
    const struct persons_scope scope = {snapshot, row->organisation, NOW_MS + row->after_ms};
    const struct principal first = subject_of(row->one), second = subject_of(row->other);
    const struct persons one = persons_of(&scope, &first), other = persons_of(&scope, &second);

    assert_int_equal(persons_are_known(&one), row->is_known);
    assert_int_equal(persons_are_others(&one, &other), row->are_others);
    assert_int_equal(persons_are_others(&other, &one), row->are_others);
}

/* What sijil-keyd has pinned is not what the database has: nobody is another person until both agree. */
static void nobody_is_a_person_while_documents_are_not_sound(void **state)
{
    OWNED(authz_snapshot) *snapshot = snapshot_at(NOW_MS);
    const struct persons_scope scope = {snapshot, &acme, NOW_MS + 1};
    struct trust_rules *rules = (struct trust_rules *)(uintptr_t)authz_snapshot_rules(snapshot);
    const struct principal alice = subject_of("i/alice"), apart = subject_of("j/alice");

    (void)state;
    rules->kinds[DOCUMENT_PERSONS].is_sound = false;
    const struct persons one = persons_of(&scope, &alice), other = persons_of(&scope, &apart);
    assert_false(persons_are_known(&one) || persons_are_known(&other));
    struct persons_separated separated;
    persons_separated(&scope, &separated);
    assert_int_equal(separated.count, 0);
}

/* Without the document all subjects of any issuer would be persons. */
static void a_document_that_is_not_understood_lets_nobody_in(void **state)
{
    OWNED(document) *own = document_of("acme", "ftp://i", "j/alice", NOW_MS);
    const struct pinned_document pinned[] = {{own, 1}};
    OWNED(trust_rules) *rules = NULL;
    OWNED(authz_snapshot) *snapshot = NULL;
    const struct principal alice = subject_of("i/alice");
    struct error err = {0};

    (void)state;
    must(trust_rules_of(pinned, COUNT(pinned), &rules, &err), &err);
    const struct authz_parts parts = {.rules = rules};
    must(authz_snapshot_build(&parts, &snapshot, &err), &err);
    const struct persons_scope scope = {snapshot, &acme, NOW_MS + 1};
    const struct persons one = persons_of(&scope, &alice);
    assert_false(persons_are_known(&one));
}

static void sets_are_compared_by_all_of_their_members(void **state)
{
    const struct person a = person_new("ext:a", "https://i"), b = person_new("ext:b", "https://i"),
                        c = person_new("ext:c", "https://i"), nowhere = person_new("ext:d", NULL);
    const struct persons ab = {2, false, false, {a, b}}, only_c = {1, false, false, {c}}, bc = {2, false, false, {b, c}},
                         some = {1, true, false, {a}}, hidden = {0, true, true, {{{0}, {0}, {0}, false}}},
                         lost = {1, false, false, {nowhere}};

    (void)state;
    assert_true(persons_are_others(&only_c, &ab) && persons_are_others(&ab, &only_c));
    assert_false(persons_are_others(&ab, &bc) || persons_are_none_of(&ab, &bc));
    assert_true(persons_meet(&ab, &bc) && !persons_meet(&ab, &only_c));
    assert_false(persons_are_others(&only_c, &some)); /* somebody unknown asked */
    assert_true(persons_are_none_of(&only_c, &some));
    assert_false(persons_are_none_of(&some, &only_c)); /* somebody unknown approves */
    assert_false(persons_are_none_of(&ab, &some));
    assert_false(persons_are_none_of(&only_c, &hidden));
    assert_false(persons_are_others(&only_c, &lost) || persons_are_others(&lost, &only_c));
}

static void rows_are_read_as_persons(void **state)
{
    struct persons persons = {0}, none = {0};

    (void)state;
    persons_add_lines(&persons, "ext:a\next:b https://i\next:a https://i\nadministrator");
    assert_true(persons.count == 3 && persons_are_known(&persons));
    const struct person a = person_new("ext:a", "https://i");
    assert_memory_equal(persons.each[0].issuer, a.issuer, sizeof a.issuer); /* one of the rows knows it */
    persons_add_lines(&persons, PERSON_UNKNOWN);
    assert_true(persons.count == 3 && persons.has_unknown);
    persons_add_lines(&none, "");
    assert_true(none.count == 0 && none.has_unknown);
}

/* The ninth has seen the secret, too: it must not approve what it may have asked for. */
static void nobody_is_another_than_too_many(void **state)
{
    OWNED(authz_snapshot) *snapshot = snapshot_at(NOW_MS);
    const struct persons_scope scope = {snapshot, &beta, NOW_MS - 1};
    const struct person last = person_new("ext:9", "https://i");
    const struct persons ninth = {1, false, false, {last}};
    struct persons behind = {0};

    (void)state;
    persons_add_lines(&behind, "ext:1 https://i\next:2 https://i\next:3 https://i\next:4 https://i\next:5 https://i\n"
                               "ext:6 https://i\next:7 https://i\next:8 https://i");
    assert_true(persons_are_known(&behind) && persons_are_none_of(&ninth, &behind));
    persons_add_lines(&behind, "ext:9 https://i");
    const struct persons now = persons_as_of_now(&scope, &behind);
    assert_false(persons_are_none_of(&ninth, &behind) || persons_are_none_of(&ninth, &now));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_document_that_is_not_understood_lets_nobody_in),
                                       cmocka_unit_test(nobody_is_a_person_while_documents_are_not_sound),
                                       cmocka_unit_test(sets_are_compared_by_all_of_their_members),
                                       cmocka_unit_test(nobody_is_another_than_too_many),
                                       cmocka_unit_test(rows_are_read_as_persons)};

    return RUN_TABLE(rows, check_row) + cmocka_run_group_tests(tests, NULL, NULL);
}
