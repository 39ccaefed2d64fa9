/* The registry's memory: unwrapped keys, and writers between two requests. */
#include "tests/support/unit.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "crypto/random.h"
#include "registry/key_cache.h"
#include "registry/upload_table.h"

static struct key_cache *cache_of(size_t capacity, unsigned lifetime_ms)
{
    struct key_cache *cache = NULL;
    struct error err = {0};

    if (!key_cache_new(capacity, lifetime_ms, &cache, &err).ok) fail_msg("%s", err.message);
    return cache;
}

static const struct uuid some_id = {{1, 2, 3}};

/* Long enough for calls that follow at once, also if this thread must wait for a processor. */
#define LIFETIME_MS 1000

static void a_key_is_kept_for_its_time(void **state)
{
    OWNED(key_cache) *cache = cache_of(16, LIFETIME_MS);
    uint8_t name[KEY_CACHE_NAME_SIZE], key[DATA_KEY_SIZE], found[DATA_KEY_SIZE];

    (void)state;
    random_bytes(name, sizeof name);
    random_bytes(key, sizeof key);
    assert_false(key_cache_get(cache, name, found));
    key_cache_put(cache, name, &some_id, key);
    assert_true(key_cache_get(cache, name, found));
    assert_memory_equal(found, key, sizeof key);
    (void)usleep((LIFETIME_MS + 30) * 1000);
    assert_false(key_cache_get(cache, name, found));
}

/* A key that was never requested again stayed in memory as long as the process. */
static void an_old_key_is_wiped_unasked(void **state)
{
    OWNED(key_cache) *cache = cache_of(16, LIFETIME_MS);
    const uint8_t name[KEY_CACHE_NAME_SIZE] = {3}, key[DATA_KEY_SIZE] = {4};

    (void)state;
    key_cache_put(cache, name, &some_id, key);
    assert_int_equal(key_cache_expire(cache), 0);
    (void)usleep((LIFETIME_MS + 30) * 1000);
    assert_int_equal(key_cache_expire(cache), 1);
    assert_int_equal(key_cache_expire(cache), 0);
}

static void all_keys_are_forgotten_at_once(void **state)
{
    OWNED(key_cache) *cache = cache_of(16, 60000);
    uint8_t name[KEY_CACHE_NAME_SIZE] = {1}, key[DATA_KEY_SIZE] = {2}, found[DATA_KEY_SIZE];

    (void)state;
    key_cache_put(cache, name, &some_id, key);
    key_cache_clear(cache);
    assert_false(key_cache_get(cache, name, found));
}

static void the_cache_never_grows(void **state)
{
    OWNED(key_cache) *cache = cache_of(8, 60000);
    uint8_t name[KEY_CACHE_NAME_SIZE] = {0}, key[DATA_KEY_SIZE] = {0}, found[DATA_KEY_SIZE];
    unsigned kept = 0;

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        store_u32(name, i * 2654435761U);
        store_u32(key, i);
        key_cache_put(cache, name, &some_id, key);
        assert_true(key_cache_get(cache, name, found) && load_u32(found) == i);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        store_u32(name, i * 2654435761U);
        kept += key_cache_get(cache, name, found);
    }
    assert_true(kept > 0 && kept <= 8);
}

/* Each value that sijil-keyd checks changes the name. */
static void a_name_covers_the_whole_scope(void **state)
{
    struct key_scope scope = {.region = "test/here"}, other = scope;
    struct key_record record = {.wrapped = {.version = 1, .length = 2, .bytes = {1, 2}}}, another = record;
    uint8_t name[KEY_CACHE_NAME_SIZE], changed[KEY_CACHE_NAME_SIZE];

    (void)state;
    key_cache_name(&scope, &record, name);
    key_cache_name(&other, &another, changed);
    assert_memory_equal(name, changed, sizeof name);
#define DIFFERS(change)                                      \
    do {                                                     \
        other = scope;                                       \
        another = record;                                    \
        change;                                              \
        key_cache_name(&other, &another, changed);           \
        assert_memory_not_equal(name, changed, sizeof name); \
    } while (0)
    DIFFERS(other.organisation.bytes[0] = 1);
    DIFFERS(other.project.bytes[15] = 1);
    DIFFERS(other.region[0] = 'T');
    DIFFERS(another.id.bytes[3] = 1);
    DIFFERS(another.commitment[31] = 1);
    DIFFERS(another.wrapped.version = 2);
    DIFFERS(another.wrapped.bytes[1] = 3);
    DIFFERS(another.wrapped.length = 1);
}

struct uploads {
    struct blob_store *store;
    struct upload_table *table;
    struct secret *key;
};

static int open_uploads(void **state)
{
    static struct uploads uploads;
    const struct upload_limits limits = {.writers_max = 3, .idle_max = 2};
    struct driver *driver = NULL;
    struct error err = {0};

    const bool ok = driver_memory_open(NULL, &driver, &err).ok &&
                    blob_store_new(driver, "test/here", NULL, &uploads.store, &err).ok &&
                    upload_table_new(&limits, &uploads.table, &err).ok && secret_random(DATA_KEY_SIZE, &uploads.key, &err).ok;
    *state = &uploads;
    return ok ? 0 : -1;
}

static int close_uploads(void **state)
{
    struct uploads *uploads = *state;

    upload_table_free(uploads->table);
    blob_store_free(uploads->store);
    secret_free(uploads->key);
    return 0;
}

static struct live_upload take(struct uploads *uploads, const struct uuid *id)
{
    struct live_upload live = {0};
    struct error err = {0};

    if (!upload_table_take(uploads->table, id, &live, &err).ok) fail_msg("%s", err.message);
    return live;
}

static void give_writer(struct uploads *uploads, struct live_upload *live)
{
    const struct blob_upload session = {
        .upload = live->upload, .identity = blob_identity_new(uploads->store, &live->upload), .writer_epoch = 1};
    struct error err = {0};

    if (live->writer == NULL && !blob_writer_open(uploads->store, &session, uploads->key, NULL, &live->writer, &err).ok)
        fail_msg("%s", err.message);
    live->writer_epoch = 1;
    upload_table_give(uploads->table, live);
    assert_null(live->writer);
}

static void a_writer_is_kept_for_the_next_request(void **state)
{
    struct uploads *uploads = *state;
    const struct uuid id = uuid_random();
    struct live_upload live = take(uploads, &id);

    assert_null(live.writer);
    give_writer(uploads, &live);
    live = take(uploads, &id);
    assert_non_null(live.writer);
    assert_int_equal(live.writer_epoch, 1);
    blob_writer_free(GIVE(live.writer));
    upload_table_give(uploads->table, &live); /* without a writer: nothing is kept */
    live = take(uploads, &id);
    assert_null(live.writer);
    upload_table_give(uploads->table, &live);
}

static void only_the_first_request_of_a_session_begun_here_knows_it(void **state)
{
    struct uploads *uploads = *state;
    const struct uuid id = uuid_random();
    struct live_upload live;

    upload_table_note_begun(uploads->table, &id);
    live = take(uploads, &id);
    assert_true(live.is_begun);
    give_writer(uploads, &live);
    live = take(uploads, &id);
    assert_false(live.is_begun);
    give_writer(uploads, &live);
    upload_table_note_begun(uploads->table, &id);
    upload_table_clear(uploads->table);
    live = take(uploads, &id);
    assert_false(live.is_begun);
    give_writer(uploads, &live);
}

static void a_session_has_one_request(void **state)
{
    struct uploads *uploads = *state;
    const struct uuid id = uuid_random();
    struct live_upload live = take(uploads, &id), second = {0};
    struct error err = {0};

    assert_false(upload_table_take(uploads->table, &id, &second, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    upload_table_give(uploads->table, &live);
}

static void one_that_stands_still_is_overtaken(void **state)
{
    struct uploads *uploads = *state;
    const struct uuid id = uuid_random();
    struct live_upload first = take(uploads, &id), second, third = {0};
    struct error err = {0};

    upload_table_age(uploads->table, clock_monotonic_ms() - UPLOAD_STALLED_MS);
    upload_table_touch(uploads->table, &first); /* it makes progress */
    assert_false(upload_table_take(uploads->table, &id, &third, &err).ok);
    upload_table_age(uploads->table, clock_monotonic_ms() - UPLOAD_STALLED_MS);
    second = take(uploads, &id);
    assert_false(upload_table_take(uploads->table, &id, &third, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    give_writer(uploads, &second);
    give_writer(uploads, &first); /* its writer is not kept, and evicts no other */
    second = take(uploads, &id);
    assert_non_null(second.writer);
    give_writer(uploads, &second);
}

static void the_oldest_idle_writer_makes_room(void **state)
{
    struct uploads *uploads = *state;
    struct uuid ids[4];
    struct live_upload live[4];
    struct error err = {0};

    for (int i = 0; i < 3; i++) {
        ids[i] = uuid_random();
        live[i] = take(uploads, &ids[i]);
    }
    ids[3] = uuid_random();
    assert_false(upload_table_take(uploads->table, &ids[3], &live[3], &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    for (int i = 0; i < 3; i++) {
        (void)usleep(2000);
        give_writer(uploads, &live[i]); /* the third evicts the first */
    }
    live[0] = take(uploads, &ids[0]);
    assert_null(live[0].writer);
    live[1] = take(uploads, &ids[1]);
    assert_non_null(live[1].writer);
    live[3] = take(uploads, &ids[3]); /* evicts the third, which is idle */
    give_writer(uploads, &live[0]);
    give_writer(uploads, &live[1]);
    give_writer(uploads, &live[3]);
    live[2] = take(uploads, &ids[2]);
    assert_null(live[2].writer);
    upload_table_give(uploads->table, &live[2]);
}

static void writers_expire(void **state)
{
    struct uploads *uploads = *state;
    const struct uuid id = uuid_random();
    struct live_upload live = take(uploads, &id);

    give_writer(uploads, &live);
    upload_table_expire(uploads->table, clock_monotonic_ms() - 60000);
    live = take(uploads, &id);
    assert_non_null(live.writer);
    give_writer(uploads, &live);
    upload_table_expire(uploads->table, clock_monotonic_ms() + 1);
    live = take(uploads, &id);
    assert_null(live.writer);
    upload_table_give(uploads->table, &live);
}

static struct result make_both(void *context, struct error *err)
{
    const struct upload_limits limits = {.writers_max = 1, .idle_max = 1};
    OWNED(key_cache) *cache = NULL;
    OWNED(upload_table) *table = NULL;

    (void)context;
    TRY_UNTOUCHED_BYTES(cache, key_cache_new(4, 1, &cache, err));
    TRY_UNTOUCHED_BYTES(table, upload_table_new(&limits, &table, err));
    return SUCCESS;
}

static void lack_of_memory_is_said(void **state)
{
    (void)state;
    fail_each(make_both, NULL, ERROR_NO_MEMORY, 4);
}

int main(void)
{
    const struct CMUnitTest keys[] = {
        cmocka_unit_test(a_key_is_kept_for_its_time),     cmocka_unit_test(an_old_key_is_wiped_unasked),
        cmocka_unit_test(all_keys_are_forgotten_at_once), cmocka_unit_test(the_cache_never_grows),
        cmocka_unit_test(a_name_covers_the_whole_scope),  cmocka_unit_test(lack_of_memory_is_said),
    };
    const struct CMUnitTest uploads[] = {
        cmocka_unit_test_setup_teardown(a_writer_is_kept_for_the_next_request, open_uploads, close_uploads),
        cmocka_unit_test_setup_teardown(only_the_first_request_of_a_session_begun_here_knows_it, open_uploads, close_uploads),
        cmocka_unit_test_setup_teardown(a_session_has_one_request, open_uploads, close_uploads),
        cmocka_unit_test_setup_teardown(one_that_stands_still_is_overtaken, open_uploads, close_uploads),
        cmocka_unit_test_setup_teardown(the_oldest_idle_writer_makes_room, open_uploads, close_uploads),
        cmocka_unit_test_setup_teardown(writers_expire, open_uploads, close_uploads),
    };

    return cmocka_run_group_tests_name("keys", keys, NULL, NULL) +
           cmocka_run_group_tests_name("uploads in memory", uploads, NULL, NULL);
}
