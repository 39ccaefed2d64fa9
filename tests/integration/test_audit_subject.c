/* The subjects of the log that a gateway keeps in locked memory: few places, each for one subject at a time. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit_store.h"
#include "audit/subject_priv.h"
#include "base/fault.h"
#include "base/hash.h"
#include "tests/support/database.h"
#include "tests/support/keyd_process.h"

enum { PLACES = 3 };

static const struct pg_table *const tables[] = {&audit_subject_table, NULL};

struct place {
    struct database *database;
    struct keyd_process *keyd;
    struct pg *pg;
    struct subject_cache *cache;
};

static void place_open(struct place *place)
{
    struct error err = {0};

    *place = (struct place){.database = database_new(), .keyd = keyd_process_new("registry.test/audit")};
    if (!pg_open(database_app(place->database), tables, &place->pg, &err).ok) fail_msg("%s", err.message);
    assert_true(subject_cache_new(PLACES, &place->cache, &err).ok);
}

static void place_close(struct place *place)
{
    subject_cache_free(place->cache);
    pg_free(place->pg);
    keyd_process_free(place->keyd);
    database_free(place->database);
}

static struct audit_subject *resolve(struct place *place, const char *issuer, const char *subject)
{
    const char *const names[2] = {issuer, subject};
    struct audit_subject *found = NULL;
    struct error err = {0};

    if (!subject_cache_resolve(place->cache, keyd_process_client(place->keyd), place->pg, names, &found, &err).ok)
        fail_msg("%s", err.message);
    return found;
}

static enum error_kind refusal(struct place *place, const char *issuer, const char *subject)
{
    const char *const names[2] = {issuer, subject};
    struct audit_subject *found = NULL;
    struct error err = {0};

    assert_false(subject_cache_resolve(place->cache, keyd_process_client(place->keyd), place->pg, names, &found, &err).ok);
    assert_null(found);
    return err.kind;
}

/* A pinned subject stays; the one that was used least recently is evicted; a returning one has the same pseudonym. */
static void the_oldest_gives_way(void **state)
{
    struct place place;
    char first[65];

    (void)state;
    place_open(&place);
    struct audit_subject *alice = resolve(&place, "i", "alice"), *bob = resolve(&place, "i", "bob");
    struct audit_subject *carol = resolve(&place, "i", "carol");
    (void)snprintf(first, sizeof first, "%s", carol->pseudonym);
    assert_int_equal(refusal(&place, "i", "dave"), ERROR_LIMIT); /* all three are in use */
    assert_ptr_equal(resolve(&place, "i", "bob"), bob);          /* the same place: pinned twice */
    subject_cache_release(place.cache, bob);
    assert_int_equal(refusal(&place, "i", "dave"), ERROR_LIMIT);
    subject_cache_release(place.cache, bob);
    subject_cache_release(place.cache, carol);
    subject_cache_release(place.cache, NULL);
    struct audit_subject *dave = resolve(&place, "i", "dave");
    assert_null(subject_cache_find(place.cache, "i", "carol")); /* bob was used after her */
    assert_ptr_equal(subject_cache_find(place.cache, "i", "bob"), bob);
    subject_cache_release(place.cache, bob);
    assert_null(subject_cache_find(place.cache, "other", "alice"));
    struct audit_subject *again = resolve(&place, "i", "carol"); /* now bob gives way */
    assert_string_equal(again->pseudonym, first);
    assert_string_not_equal(again->pseudonym, dave->pseudonym);
    assert_string_equal(alice->subject, "alice");
    subject_cache_release(place.cache, dave);
    subject_cache_release(place.cache, again);
    subject_cache_release(place.cache, subject_cache_find(place.cache, "i", "dave")); /* after carol */
    (void)resolve(&place, "i", "eve");
    assert_null(subject_cache_find(place.cache, "i", "carol"));
    assert_non_null(subject_cache_find(place.cache, "i", "dave"));
    place_close(&place);
}

/* Three subjects of one bucket, one of another issuer: the one in the middle goes, the others are still found. */
static void buckets_hold_several(void **state)
{
    static char names[3][16];
    struct place place;
    size_t count = 0;

    (void)state;
    place_open(&place);
    for (unsigned i = 0; count < 3; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%u", i);
        if (hash_bucket(hash_add(hash_add(HASH_BEGIN, count == 2 ? "j" : "i"), name), 1024) == 77)
            memcpy(names[count++], name, sizeof name);
    }
    for (size_t i = 0; i < 3; i++) (void)resolve(&place, i == 2 ? "j" : "i", names[i]);
    struct audit_subject *middle = subject_cache_find(place.cache, "i", names[1]);
    subject_cache_release(place.cache, middle);
    subject_cache_release(place.cache, middle);
    (void)resolve(&place, "i", "dave");
    assert_null(subject_cache_find(place.cache, "i", names[1]));
    assert_non_null(subject_cache_find(place.cache, "i", names[0]));
    assert_non_null(subject_cache_find(place.cache, "j", names[2]));
    place_close(&place);
}

static void names_have_a_largest_size(void **state)
{
    char name[SUBJECT_TEXT_MAX + 2];
    struct place place;

    (void)state;
    place_open(&place);
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(refusal(&place, name, "s"), ERROR_LIMIT);
    assert_int_equal(refusal(&place, "i", name), ERROR_LIMIT);
    place_close(&place);
}

/* The rows of the database are not trusted. */
static void damaged_keys_are_refused(void **state)
{
    struct place place;

    (void)state;
    place_open(&place);
    subject_cache_release(place.cache, resolve(&place, "i", "alice"));
    subject_cache_free(GIVE(place.cache));
    struct error err = {0};
    assert_true(subject_cache_new(PLACES, &place.cache, &err).ok);
    database_execute(place.database, "UPDATE audit_subject SET wrapped_key = decode(repeat('00', 300), 'hex')");
    assert_int_equal(refusal(&place, "i", "alice"), ERROR_CORRUPT);
    database_execute(place.database, "UPDATE audit_subject SET wrapped_key = decode(repeat('00', 80), 'hex')");
    assert_int_equal(refusal(&place, "i", "alice"), ERROR_CORRUPT);
    keyd_process_kill(place.keyd);
    assert_int_equal(refusal(&place, "i", "alice"), ERROR_UNAVAILABLE);
    keyd_process_restart(place.keyd);
    place_close(&place);
}

static struct result make_a_cache(void *unused, struct error *err)
{
    OWNED(subject_cache) *cache = NULL;

    (void)unused;
    TRY_UNTOUCHED_BYTES(cache, subject_cache_new(4, &cache, err));
    return SUCCESS;
}

static void a_cache_survives_lack_of_memory(void **state)
{
    (void)state;
    fail_each(make_a_cache, NULL, ERROR_NO_MEMORY, 4);
    subject_cache_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_gives_way),
        cmocka_unit_test(buckets_hold_several),
        cmocka_unit_test(names_have_a_largest_size),
        cmocka_unit_test(damaged_keys_are_refused),
        cmocka_unit_test(a_cache_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
