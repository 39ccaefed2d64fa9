/* Upload sessions against a real database, key process and folder. */
#include "tests/integration/registry_fixture.h"

#include "registry/jobs/clean_up.h"
#include "registry/maintenance.h"
#include "registry/registry_priv.h"

static struct digest parsed(const char *text)
{
    struct digest digest;

    MUST(digest_parse(bytes_of_text(text), &digest, &err));
    return digest;
}

static void comes_in_pieces(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "pieces");
    const struct upload_begin begun = fixture_begin(&where);
    char digest[DIGEST_TEXT_SIZE];
    uint8_t *content = fixture_content(1, ARTIFACTS, digest);
    const struct digest expected = parsed(digest);
    const size_t cuts[] = {0, 1, 65520, 65521, 200000, ARTIFACTS};

    (void)state;
    for (size_t i = 0; i + 1 < COUNT(cuts); i++) {
        struct job_recorder recorder;
        OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
        assert_int_equal(upload_offset(upload), cuts[i]);
        MUST(upload_claim(upload, fixture.stack->pg, &err));
        MUST(upload_write(upload, (struct bytes){content + cuts[i], cuts[i + 1] - cuts[i]}, &err));
        MUST(upload_save(upload, fixture.stack->pg, &recorder.recorder, &err));
        assert_int_equal(upload_offset(upload), cuts[i + 1]);
        if (cuts[i + 1] == ARTIFACTS) MUST(upload_commit(upload, fixture.stack->pg, &expected, &recorder.recorder, &err));
    }
    assert_string_equal(ask("SELECT max(writer_epoch) FROM upload"), ""); /* the session is over */
    fixture_check(&where, 1, ARTIFACTS);
    free(content);
}

static void one_writer_serves_many_pieces(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "kept");
    const struct upload_begin begun = fixture_begin(&where);

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        struct job_recorder recorder;
        OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
        MUST(upload_claim(upload, fixture.stack->pg, &err));
        MUST(upload_write(upload, bytes_of_text("piece"), &err));
        MUST(upload_save(upload, fixture.stack->pg, &recorder.recorder, &err));
    }
    assert_string_equal(ask("SELECT writer_epoch FROM upload JOIN repository r USING (repository_id)"
                            " WHERE r.name = 'kept'"),
                        "2");
}

/* The gateway that began it has claimed it with that. A later writer, or one that does not know the session, claims it again. */
static void its_first_writer_is_who_began_it(void **state)
{
    static const char epoch[] = "SELECT writer_epoch FROM upload JOIN repository r USING (repository_id) WHERE r.name = 'first'";
    struct resource where = fixture_repository(&fixture.models, "first");
    const struct upload_begin begun = fixture_begin(&where);

    (void)state;
    assert_string_equal(ask(epoch), "1");
    upload_begin_finish(fixture.registry, &begun);
    for (int claims = 1; claims <= 3; claims++) {
        const char expected[] = {(char)('0' + claims), '\0'};
        struct job_recorder recorder;
        OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
        MUST(upload_claim(upload, fixture.stack->pg, &err));
        MUST(upload_write(upload, bytes_of_text("not saved, so that the writer is not kept"), &err));
        assert_string_equal(ask(epoch), expected);
    }
}

static void goes_on_after_a_restart(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "restart");
    const struct upload_begin begun = fixture_begin(&where);
    char digest[DIGEST_TEXT_SIZE];
    uint8_t *content = fixture_content(2, ARTIFACTS, digest);
    const struct digest expected = parsed(digest);
    const size_t saved = 100001;

    (void)state;
    {
        struct job_recorder recorder;
        OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
        MUST(upload_claim(upload, fixture.stack->pg, &err));
        MUST(upload_write(upload, (struct bytes){content, saved}, &err));
        MUST(upload_save(upload, fixture.stack->pg, &recorder.recorder, &err));
        MUST(upload_write(upload, (struct bytes){content, 150000}, &err)); /* lost, and not even the right bytes */
    }
    fixture_restart();
    struct job_recorder recorder;
    OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
    assert_int_equal(upload_offset(upload), saved);
    MUST(upload_claim(upload, fixture.stack->pg, &err));
    MUST(upload_write(upload, (struct bytes){content + saved, ARTIFACTS - saved}, &err));
    MUST(upload_commit(upload, fixture.stack->pg, &expected, &recorder.recorder, &err));
    fixture_check(&where, 2, ARTIFACTS);
    free(content);
}

static void another_digest_is_refused_and_nothing_lost(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "wrong");
    const struct upload_begin begun = fixture_begin(&where);
    char digest[DIGEST_TEXT_SIZE], wrong[DIGEST_TEXT_SIZE];
    uint8_t *content = fixture_content(3, 1000, digest), *other = fixture_content(4, 1000, wrong);
    const struct digest expected = parsed(digest), unexpected = parsed(wrong);

    (void)state;
    {
        struct job_recorder recorder;
        OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
        MUST(upload_claim(upload, fixture.stack->pg, &err));
        MUST(upload_write(upload, (struct bytes){content, 600}, &err));
        MUST(upload_save(upload, fixture.stack->pg, &recorder.recorder, &err));
        MUST(upload_write(upload, (struct bytes){content + 600, 400}, &err));
        MUST_FAIL(ERROR_INVALID, upload_commit(upload, fixture.stack->pg, &unexpected, &recorder.recorder, &err));
    }
    struct job_recorder recorder;
    OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
    assert_int_equal(upload_offset(upload), 600);
    MUST(upload_claim(upload, fixture.stack->pg, &err));
    MUST(upload_write(upload, (struct bytes){content + 600, 400}, &err));
    MUST(upload_commit(upload, fixture.stack->pg, &expected, &recorder.recorder, &err));
    fixture_check(&where, 3, 1000);
    free(content);
    free(other);
}

/* Reads the session alone, and in the transaction of a record: both have the same result. */
static bool is_found(const struct upload_request *request, const struct permit *permit)
{
    OWNED(upload) *alone = NULL;
    OWNED(upload) *recorded = NULL;
    struct error problem = {0};

    MUST(upload_new(fixture.registry, request, &alone, &err));
    MUST(upload_new(fixture.registry, request, &recorded, &err));
    MUST(fixture_change(request->action, request->where, upload_search(recorded), &err));
    const struct result found = upload_find(permit, alone, fixture.stack->pg, &problem);
    if (!found.ok) assert_int_equal(problem.kind, ERROR_NOT_FOUND);
    assert_int_equal(upload_find(permit, recorded, NULL, &problem).ok, found.ok); /* asks nobody */
    return found.ok;
}

static void is_nobody_elses(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "mine"), elsewhere;
    struct upload_begin begun = fixture_begin(&where);
    struct principal other = fixture.principal;
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_UPLOAD_READ, &where);
    struct upload_request request = {
        .action = ACTION_UPLOAD_READ, .where = &where, .principal = &fixture.principal, .location = begun.location};

    (void)state;
    assert_true(is_found(&request, permit));
    request.location.secret[31] ^= 1;
    assert_false(is_found(&request, permit));
    request.location = begun.location;
    other.id = uuid_random();
    request.principal = &other;
    assert_false(is_found(&request, permit));
    other = fixture.principal;
    (void)snprintf(other.source, sizeof other.source, "another credential");
    assert_false(is_found(&request, permit));
    request.principal = &fixture.principal;
    elsewhere = fixture_repository(&fixture.models, "elsewhere");
    (void)fixture_begin(&elsewhere);
    OWNED(permit) *second = stack_permit(fixture.stack, ACTION_UPLOAD_READ, &elsewhere);
    request.where = &elsewhere;
    assert_false(is_found(&request, second));
}

static void has_one_writer_at_a_time(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "busy");
    const struct upload_begin begun = fixture_begin(&where);
    struct job_recorder recorder;
    OWNED(upload) *first = fixture_find(fixture.registry, &begun, &recorder);
    OWNED(upload) *second = fixture_find(fixture.registry, &begun, &recorder);

    (void)state;
    MUST(upload_claim(first, fixture.stack->pg, &err));
    MUST_FAIL(ERROR_CONFLICT, upload_claim(second, fixture.stack->pg, &err));
    upload_free(GIVE(first));
    MUST(upload_claim(second, fixture.stack->pg, &err));
}

static void another_gateway_takes_over(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "taken");
    const struct upload_begin begun = fixture_begin(&where);
    struct registry *gateway = fixture_second_gateway();
    char digest[DIGEST_TEXT_SIZE];
    uint8_t *content = fixture_content(5, ARTIFACTS, digest);
    const struct digest expected = parsed(digest);
    struct job_recorder recorder, recorder_there;
    OWNED(upload) *here = fixture_find(fixture.registry, &begun, &recorder);
    OWNED(upload) *there = fixture_find(gateway, &begun, &recorder_there);

    (void)state;
    MUST(upload_claim(here, fixture.stack->pg, &err));
    MUST(upload_write(here, (struct bytes){content, 70000}, &err));
    MUST(upload_save(here, fixture.stack->pg, &recorder.recorder, &err));
    MUST(upload_claim(there, fixture.stack->pg, &err));
    assert_int_equal(upload_offset(there), 70000);
    MUST(upload_write(here, (struct bytes){content, 10}, &err)); /* it does not know yet */
    MUST(upload_write(there, (struct bytes){content + 70000, ARTIFACTS - 70000}, &err));
    MUST_FAIL(ERROR_CONFLICT, upload_save(here, fixture.stack->pg, &recorder.recorder, &err));
    MUST(upload_commit(there, fixture.stack->pg, &expected, &recorder_there.recorder, &err));
    upload_free(GIVE(there));
    registry_free(gateway);
    fixture_check(&where, 5, ARTIFACTS);
    free(content);
}

static void a_cancelled_one_leaves_nothing(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "cancelled");
    const struct upload_begin begun = fixture_begin(&where);
    struct upload_cancel cancel;

    (void)state;
    {
        struct job_recorder recorder;
        OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
        MUST(upload_claim(upload, fixture.stack->pg, &err));
        MUST(upload_write(upload, bytes_of_text("something"), &err));
        MUST(upload_save(upload, fixture.stack->pg, &recorder.recorder, &err));
    }
    upload_cancel_prepare(&where, &fixture.principal, &begun.location, &cancel);
    MUST(fixture_change(ACTION_UPLOAD_CANCEL, &where, &cancel.change, &err));
    OWNED(permit) *permit = fixture_permit(ACTION_UPLOAD_CANCEL, &where);
    upload_cancel_finish(permit, fixture.registry, fixture.stack->pg, &cancel);
    assert_string_equal(ask("SELECT count(*) FROM abandoned_object"), "0"); /* the bytes are gone too */
    MUST_FAIL(ERROR_NOT_FOUND, fixture_change(ACTION_UPLOAD_CANCEL, &where, &cancel.change, &err));
    assert_int_equal(stack_events(fixture.stack, "upload.cancel", "failed"), 1);
}

static struct result count_objects(void *context, const struct driver_entry *entry, struct error *err)
{
    (void)entry;
    (void)err;
    ++*(size_t *)context;
    return SUCCESS;
}

/* The number of all objects of the region. */
static size_t objects(void)
{
    OWNED(driver) *driver = NULL;
    size_t count = 0;

    MUST(driver_fs_open(fixture.folder.path, UINT64_MAX, &driver, &err));
    MUST(driver->operations->list(driver, count_objects, &count, &err));
    return count;
}

/* The bytes were removed with the session; bytes that a request wrote afterwards stayed on the disk for ever. */
static void a_cancelled_one_leaves_nothing_to_a_request_that_still_writes(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "cancelled/writing");
    OWNED(registry) *elsewhere = fixture_second_gateway(); /* the writing gateway does not get a message */

    (void)state;
    for (int closes = 0; closes < 2; closes++) {
        const size_t before = objects();
        const struct upload_begin begun = fixture_begin(&where);
        char digest[DIGEST_TEXT_SIZE];
        uint8_t *content = fixture_content(77, ARTIFACTS, digest);
        const struct digest expected = parsed(digest);
        struct upload_cancel cancel;
        struct job_recorder recorder;
        {
            OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
            MUST(upload_claim(upload, fixture.stack->pg, &err));
            MUST(upload_write(upload, (struct bytes){content, ARTIFACTS / 2}, &err));
            where.repository = begun.repository;
            upload_cancel_prepare(&where, &fixture.principal, &begun.location, &cancel);
            MUST(fixture_change(ACTION_UPLOAD_CANCEL, &where, &cancel.change, &err));
            OWNED(permit) *permit = fixture_permit(ACTION_UPLOAD_CANCEL, &where);
            upload_cancel_finish(permit, elsewhere, fixture.stack->pg, &cancel);
            MUST(upload_write(upload, (struct bytes){content + ARTIFACTS / 2, ARTIFACTS / 2}, &err));
            if (closes) MUST_FAIL(ERROR_NOT_FOUND, upload_commit(upload, fixture.stack->pg, &expected, &recorder.recorder, &err));
            else MUST_FAIL(ERROR_NOT_FOUND, upload_save(upload, fixture.stack->pg, &recorder.recorder, &err));
        }
        free(content);
        assert_int_equal(objects(), before);
    }
}

static void an_old_one_is_reaped(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "old");
    const struct upload_begin begun = fixture_begin(&where);
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_UPLOAD_READ, &where);
    const struct upload_request request = {
        .action = ACTION_UPLOAD_READ, .where = &where, .principal = &fixture.principal, .location = begun.location};
    size_t count = 0;

    (void)state;
    execute("UPDATE upload SET expires_at = now() - interval '1 s' FROM repository r"
            " WHERE r.repository_id = upload.repository_id AND r.name = 'old'");
    assert_false(is_found(&request, permit));
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 2); /* the session, and its object */
    assert_int_equal(stack_events(fixture.stack, "upload.reap", "completed"), 1);
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 0);
}

static void the_second_of_two_equal_ones_is_dropped(void **state)
{
    struct resource first = fixture_repository(&fixture.models, "twin/a");
    struct resource second = fixture_repository(&fixture.models, "twin/b");
    const struct upload_begin begun[2] = {fixture_begin(&first), fixture_begin(&second)};
    struct job_recorder recorders[2];
    struct upload *uploads[2];
    char digest[DIGEST_TEXT_SIZE];
    uint8_t *content = fixture_content(6, ARTIFACTS, digest);
    const struct digest expected = parsed(digest);

    (void)state;
    for (int i = 0; i < 2; i++) {
        uploads[i] = fixture_find(fixture.registry, &begun[i], &recorders[i]);
        MUST(upload_claim(uploads[i], fixture.stack->pg, &err));
        MUST(upload_write(uploads[i], (struct bytes){content, ARTIFACTS}, &err));
    }
    for (int i = 0; i < 2; i++) {
        MUST(upload_commit(uploads[i], fixture.stack->pg, &expected, &recorders[i].recorder, &err));
        upload_free(uploads[i]);
    }
    assert_string_equal(ask("SELECT count(DISTINCT blob_id) FROM repository_blob JOIN repository r USING (repository_id)"
                            " WHERE r.name LIKE 'twin/%'"),
                        "1");
    assert_string_equal(ask("SELECT count(*) FROM abandoned_object"), "0");
    fixture_check(&first, 6, ARTIFACTS);
    fixture_check(&second, 6, ARTIFACTS);
    free(content);
}

static void nothing_is_a_blob_too(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "empty");
    char digest[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&where, 7, 0, digest);
    assert_string_equal(digest, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    fixture_check(&where, 7, 0);
}

/* The POST did not announce it: the bytes are read back and written once more. */
static void sha512_may_be_asked_for_at_the_end(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "late512");
    char sha256[DIGEST_TEXT_SIZE], text[DIGEST_TEXT_SIZE];
    uint8_t *content = fixture_content(40, ARTIFACTS, sha256);
    struct digest digest = digest_of(DIGEST_SHA512, (struct bytes){content, ARTIFACTS}), wrong = digest;

    (void)state;
    digest_format(&digest, text);
    wrong.bytes[0] ^= 1;
    for (int i = 0; i < 2; i++) {
        const struct upload_begin begun = fixture_begin(&where);
        struct job_recorder recorder;
        OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
        MUST(upload_claim(upload, fixture.stack->pg, &err));
        MUST(upload_write(upload, (struct bytes){content, ARTIFACTS}, &err));
        if (i == 0) MUST_FAIL(ERROR_INVALID, upload_commit(upload, fixture.stack->pg, &wrong, &recorder.recorder, &err));
        else MUST(upload_commit(upload, fixture.stack->pg, &digest, &recorder.recorder, &err));
        assert_string_equal(ask("SELECT count(*) FROM abandoned_object"), "0");
    }
    registry_forget_keys(fixture.registry); /* it has a key of its own: the row must know it */
    fixture_check_as(&where, text, content, ARTIFACTS);
    free(content);
}

/* Each copy occupies a worker while its bytes are copied. A client that is refused loses nothing. */
static void few_are_read_again_at_a_time(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "few512");
    const struct upload_begin begun = fixture_begin(&where);
    char sha256[DIGEST_TEXT_SIZE];
    uint8_t *content = fixture_content(41, ARTIFACTS, sha256);
    const struct digest digest = digest_of(DIGEST_SHA512, (struct bytes){content, ARTIFACTS});
    struct job_recorder recorder;
    struct error problem = {0};
    OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);

    (void)state;
    MUST(upload_claim(upload, fixture.stack->pg, &err));
    MUST(upload_write(upload, (struct bytes){content, ARTIFACTS}, &err));
    atomic_store(&fixture.registry->copies, UPLOAD_COPIES_MAX);
    assert_false(upload_commit(upload, fixture.stack->pg, &digest, &recorder.recorder, &problem).ok);
    assert_int_equal(problem.kind, ERROR_LIMIT);
    assert_non_null(strstr(problem.message, "digest-algorithm=sha512"));
    atomic_store(&fixture.registry->copies, UPLOAD_COPIES_MAX - 1);
    MUST(upload_commit(upload, fixture.stack->pg, &digest, &recorder.recorder, &err));
    assert_int_equal(atomic_load(&fixture.registry->copies), UPLOAD_COPIES_MAX - 1);
    atomic_store(&fixture.registry->copies, 0);
    free(content);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_in_pieces),
        cmocka_unit_test(one_writer_serves_many_pieces),
        cmocka_unit_test(its_first_writer_is_who_began_it),
        cmocka_unit_test(goes_on_after_a_restart),
        cmocka_unit_test(another_digest_is_refused_and_nothing_lost),
        cmocka_unit_test(is_nobody_elses),
        cmocka_unit_test(has_one_writer_at_a_time),
        cmocka_unit_test(another_gateway_takes_over),
        cmocka_unit_test(a_cancelled_one_leaves_nothing),
        cmocka_unit_test(a_cancelled_one_leaves_nothing_to_a_request_that_still_writes),
        cmocka_unit_test(an_old_one_is_reaped),
        cmocka_unit_test(the_second_of_two_equal_ones_is_dropped),
        cmocka_unit_test(nothing_is_a_blob_too),
        cmocka_unit_test(sha512_may_be_asked_for_at_the_end),
        cmocka_unit_test(few_are_read_again_at_a_time),
    };

    return cmocka_run_group_tests_name("uploads", tests, fixture_set_up, fixture_tear_down);
}
