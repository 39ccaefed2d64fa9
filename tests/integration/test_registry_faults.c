/*
 * Every allocation, disk operation and query of a push and a pull fails once, wherever it is. Each try either succeeds or reports
 * its failure; nothing leaks, and acknowledged content can be read afterwards.
 */
#include "tests/integration/registry_fixture.h"

#include "base/fault.h"
#include "registry/jobs/clean_up.h"
#include "registry/jobs/statements.h"

#define LENGTH 70000 /* two records */

struct attempt {
    struct resource where;
    uint64_t seed;
    char digest[DIGEST_TEXT_SIZE];
    uint8_t *content;
};

static struct result permit_for(enum action action, const struct resource *where, struct permit **permit_out, struct error *err)
{
    const struct action_pair pair = {.action = action, .resource = *where};

    return stack_record(fixture.stack, &pair, 1, NULL, permit_out, err);
}

static struct result begin(struct attempt *attempt, struct upload_location *location_out, struct error *err)
{
    struct upload_begin begin;

    TRY_UNTOUCHED_BYTES(begin,
                        upload_begin_prepare(fixture.registry, &attempt->where, &fixture.principal, DIGEST_SHA256, &begin, err));
    TRY(fixture_change(ACTION_UPLOAD_BEGIN, &attempt->where, &begin.change, err));
    attempt->where.repository = begin.repository;
    *location_out = begin.location;
    return SUCCESS;
}

static struct result fill(const struct attempt *attempt, struct upload *upload, struct job_recorder *recorder, struct error *err)
{
    struct digest digest;

    TRY(digest_parse(bytes_of_text(attempt->digest), &digest, err));
    TRY(upload_claim(upload, fixture.stack->pg, err));
    const size_t done = (size_t)upload_offset(upload);
    TRY(upload_write(upload, (struct bytes){attempt->content + done, 66000 - done}, err));
    TRY(upload_save(upload, fixture.stack->pg, &recorder->recorder, err));
    TRY(upload_write(upload, (struct bytes){attempt->content + 66000, LENGTH - 66000}, err));
    return upload_commit(upload, fixture.stack->pg, &digest, &recorder->recorder, err);
}

static struct result push(struct attempt *attempt, struct error *err)
{
    struct upload_request request = {.action = ACTION_UPLOAD_COMMIT, .where = &attempt->where, .principal = &fixture.principal};
    OWNED(permit) *permit = NULL;
    struct job_recorder recorder;

    TRY(begin(attempt, &request.location, err));
    TRY(permit_for(ACTION_UPLOAD_COMMIT, &attempt->where, &permit, err));
    recorder = fixture_recorder(permit);
    OWNED(upload) *upload = NULL;
    TRY_UNTOUCHED_BYTES(upload, upload_new(fixture.registry, &request, &upload, err));
    TRY(upload_find(permit, upload, fixture.stack->pg, err));
    return fill(attempt, upload, &recorder, err);
}

static struct result push_manifest(const struct attempt *attempt, struct error *err)
{
    struct buffer OWNED_BUFFER body = BUFFER(1024);
    struct manifest_push push = {.tag_count = 1};
    const char *tag = "latest";
    OWNED(manifest) *manifest = NULL;

    TRY(buffer_format(&body, err,
                      "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"a/b\",\"digest\":\"%s\",\"size\":%d},"
                      "\"layers\":[]}",
                      attempt->digest, LENGTH));
    TRY_UNTOUCHED_BYTES(manifest, manifest_parse(buffer_bytes(&body), (struct bytes){0}, &manifest, err));
    const struct digest digest = digest_of(DIGEST_SHA256, buffer_bytes(&body));
    digest_format(&digest, push.digest);
    push.manifest = manifest;
    push.tags = &tag;
    TRY(manifest_push_prepare(fixture.registry, fixture.stack->pg, &attempt->where, buffer_bytes(&body), &push, err));
    const struct result result = fixture_change(ACTION_MANIFEST_PUSH, &attempt->where, &push.change, err);
    manifest_push_done(&push);
    return result;
}

static struct result pull(const struct attempt *attempt, struct error *err)
{
    static uint8_t read[LENGTH];
    OWNED(permit) *reading = NULL, *listing = NULL;
    OWNED(stored_manifest) *manifest = NULL;
    OWNED(stored_blob) *blob = NULL;

    TRY(permit_for(ACTION_MANIFEST_READ, &attempt->where, &listing, err));
    const struct manifest_query tag = {.action = ACTION_MANIFEST_READ, .where = &attempt->where, .reference = "latest"};
    TRY_UNTOUCHED_BYTES(manifest, stored_manifest_find(listing, fixture.registry, fixture.stack->pg, &tag, &manifest, err));
    TRY(permit_for(ACTION_BLOB_READ, &attempt->where, &reading, err));
    const struct blob_query query = {.action = ACTION_BLOB_READ, .where = &attempt->where, .digest = attempt->digest};
    TRY_UNTOUCHED_BYTES(blob, stored_blob_find(reading, fixture.registry, fixture.stack->pg, &query, &blob, err));
    TRY(stored_blob_open(blob, err));
    TRY(stored_blob_read(blob, 0, read, LENGTH, err));
    assert_memory_equal(read, attempt->content, LENGTH);
    return SUCCESS;
}

static struct result all(struct attempt *attempt, struct error *err)
{
    TRY(push(attempt, err));
    TRY(push_manifest(attempt, err));
    return pull(attempt, err);
}

/* The connection itself may have failed. */
static void mend(void)
{
    if (pg_is_broken(fixture.stack->pg)) MUST(pg_reopen(fixture.stack->pg, &err));
}

static void each_failure_is_said_and_nothing_acknowledged_is_lost(void **state)
{
    unsigned long failures = 0, nth = 1;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        struct attempt attempt = {.where = fixture_repository(&fixture.models, "faults"), .seed = nth};
        struct error problem = {0};

        attempt.content = fixture_content(nth, LENGTH, attempt.digest);
        fault_arm(nth);
        const bool ok = all(&attempt, &problem).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        mend();
        if (!ok) {
            failures++;
            assert_true(has_fired && problem.kind != ERROR_NONE && problem.message[0] != '\0');
            MUST(all(&attempt, &err)); /* the same again, unhindered */
        }
        MUST(pull(&attempt, &err));
        free(attempt.content);
        if (nth % 50 == 0) fixture_restart();
    }
    assert_failures(failures, 100);
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL"), "0");
}

static void what_was_left_is_tidied(void **state)
{
    size_t count = 1;

    (void)state;
    execute("UPDATE upload SET expires_at = now()");
    while (count > 0) MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_string_equal(ask("SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM abandoned_object)"), "0");
}

static void a_turn_is_one_connections_until_it_ends_or_breaks(void **state)
{
    static const struct pg_table *const tables[] = {&advisory_lock_statements, NULL};
    struct pg *pg[2] = {NULL};
    bool is_ours = false;

    (void)state;
    for (size_t i = 0; i < 2; i++) MUST(pg_open(database_app(fixture.stack->database), tables, &pg[i], &err));
    MUST(advisory_lock_take(pg[0], LOCK_OF_UNWRAP_COUNT, &is_ours, &err));
    assert_true(is_ours);
    MUST(advisory_lock_take(pg[1], LOCK_OF_UNWRAP_COUNT, &is_ours, &err));
    assert_false(is_ours);
    MUST(advisory_lock_release(pg[0], LOCK_OF_UNWRAP_COUNT, &err));
    MUST(advisory_lock_take(pg[1], LOCK_OF_UNWRAP_COUNT, &is_ours, &err));
    assert_true(is_ours);
    pg_free(pg[1]);
    for (is_ours = false; !is_ours;)
        MUST(advisory_lock_take(pg[0], LOCK_OF_UNWRAP_COUNT, &is_ours, &err)); /* its server ends soon */
    pg_free(pg[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failure_is_said_and_nothing_acknowledged_is_lost),
        cmocka_unit_test(what_was_left_is_tidied),
        cmocka_unit_test(a_turn_is_one_connections_until_it_ends_or_breaks),
    };

    return cmocka_run_group_tests_name("registry faults", tests, fixture_set_up, fixture_tear_down);
}
