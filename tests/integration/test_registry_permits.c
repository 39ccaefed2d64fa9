/* What upload sessions and deletions refuse without the right permit. Each misuse is a bug of the caller, so it aborts the program. */
#include "tests/integration/registry_fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "registry/jobs/erase.h"
#include "registry/upload/upload_priv.h"

struct misuse {
    struct upload *upload;
    struct recorder *recorder;
    struct resource *where;
    const struct permit *permit;
};

/* Whether it aborts. The child has no thread that records, so each misuse must abort before its record, or use the silent recorder. */
static bool aborts(void (*misuse)(const struct misuse *given), const struct misuse *given)
{
    int status = -1;
    const pid_t child = fork();

    if (child == 0) {
        (void)fclose(stderr);
        misuse(given);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static struct result report_success(struct recorder *recorder, enum outcome outcome, const char *note, struct change *change,
                                    struct error *err)
{
    (void)recorder, (void)outcome, (void)note, (void)change, (void)err;
    return SUCCESS;
}
static struct recorder silent = {.record = report_success};

static void claim(const struct misuse *given)
{
    struct error err = {0};

    (void)upload_claim(given->upload, fixture.stack->pg, &err).ok;
}

static void save(const struct misuse *given)
{
    struct error err = {0};

    (void)upload_save(given->upload, fixture.stack->pg, given->recorder, &err).ok;
}

static void commit(const struct misuse *given)
{
    const struct digest digest = digest_of(DIGEST_SHA256, bytes_of_text("something"));
    struct error err = {0};

    (void)upload_commit(given->upload, fixture.stack->pg, &digest, given->recorder, &err).ok;
}

static void drop(const struct misuse *given)
{
    struct error err = {0};

    (void)upload_drop(given->upload, fixture.stack->pg, "gone", given->recorder, &err).ok;
}

static void reserve(const struct misuse *given)
{
    struct error err = {0};

    (void)upload_reserve(given->upload, &(struct upload_announcement){.length = 1000}, given->recorder, &err).ok;
}

static void heartbeat(const struct misuse *given)
{
    struct error err = {0};

    (void)upload_heartbeat(given->upload, fixture.stack->pg, &err).ok;
}

static void note_end(const struct misuse *given)
{
    struct error refusal = {.kind = ERROR_CONFLICT};

    upload_note_end(given->upload, fixture.stack->pg, &refusal);
}

static void open_by_another_action(const struct misuse *given)
{
    const struct upload_request request = {.action = ACTION_TAG_LIST, .where = given->where, .principal = &fixture.principal};
    struct upload *upload = NULL;
    struct error err = {0};

    (void)upload_new(fixture.registry, &request, &upload, &err).ok;
}

static void count_by_another_action(const struct misuse *given)
{
    const struct erase_view view = {.action = ACTION_TAG_LIST, .where = given->where};
    struct erase_counts counts;
    struct error err = {0};

    (void)erase_count(given->permit, fixture.stack->pg, &view, &counts, &err).ok;
}

/* The session of a request with this action. It is not found yet. */
static struct upload *session(enum action action, const struct upload_begin *begun, struct resource *where)
{
    struct upload *upload = NULL;

    *where = begun->where;
    where->repository = begun->repository;
    const struct upload_request request = {
        .action = action, .where = where, .principal = &fixture.principal, .location = begun->location};
    MUST(upload_new(fixture.registry, &request, &upload, &err));
    return upload;
}

static void find(struct upload *upload, const struct permit *permit)
{
    MUST(upload_find(permit, upload, fixture.stack->pg, &err));
}

/* A session that was opened under upload.read was claimed, written and committed. */
static void upload_read_permits_no_change(void **state)
{
    struct resource repository = fixture_repository(&fixture.models, "permit/read"), where;
    const struct upload_begin begun = fixture_begin(&repository);
    OWNED(upload) *upload = session(ACTION_UPLOAD_READ, &begun, &where);
    OWNED(permit) *permit = fixture_permit(ACTION_UPLOAD_READ, &where);
    const struct misuse misuse = {upload, &silent, &where, permit};

    (void)state;
    find(upload, permit);
    assert_int_equal(upload_offset(upload), 0);
    assert_true(aborts(claim, &misuse));
    assert_true(aborts(drop, &misuse));
    assert_true(aborts(commit, &misuse));
    assert_true(aborts(note_end, &misuse));
    assert_true(aborts(open_by_another_action, &misuse));
}

static void upload_write_permits_no_commit(void **state)
{
    struct resource repository = fixture_repository(&fixture.models, "permit/write"), where;
    const struct upload_begin begun = fixture_begin(&repository);
    OWNED(upload) *upload = session(ACTION_UPLOAD_WRITE, &begun, &where);
    OWNED(permit) *permit = fixture_permit(ACTION_UPLOAD_WRITE, &where);
    struct job_recorder recorder = fixture_recorder(permit);
    const struct misuse misuse = {upload, &recorder.recorder, &where, permit};

    (void)state;
    find(upload, permit);
    MUST(upload_claim(upload, fixture.stack->pg, &err));
    MUST(upload_write(upload, bytes_of_text("something"), &err));
    MUST(upload_save(upload, fixture.stack->pg, &recorder.recorder, &err));
    assert_true(aborts(commit, &misuse));
    MUST(upload_drop(upload, fixture.stack->pg, "gone", &recorder.recorder, &err));
}

/* upload_heartbeat() and upload_note_end() read the row of a session that nobody had permitted to find. */
static void nothing_is_done_before_it_is_found(void **state)
{
    static void (*const misuses[])(const struct misuse *given) = {claim, save, commit, drop, reserve, heartbeat, note_end};
    struct resource repository = fixture_repository(&fixture.models, "permit/none"), where;
    const struct upload_begin begun = fixture_begin(&repository);
    OWNED(upload) *upload = session(ACTION_UPLOAD_COMMIT, &begun, &where);
    const struct misuse misuse = {upload, &silent, &where, NULL};

    (void)state;
    for (size_t i = 0; i < COUNT(misuses); i++) assert_true(aborts(misuses[i], &misuse));
}

/* upload_drop() removed the bytes of a session that another request was writing into, and no event told. */
static void nothing_is_removed_without_a_claim_and_a_record(void **state)
{
    static void (*const misuses[])(const struct misuse *given) = {save, commit, drop, reserve};
    struct resource repository = fixture_repository(&fixture.models, "permit/drop"), where;
    const struct upload_begin begun = fixture_begin(&repository);
    OWNED(upload) *upload = session(ACTION_UPLOAD_COMMIT, &begun, &where);
    OWNED(permit) *permit = fixture_permit(ACTION_UPLOAD_COMMIT, &where);
    struct job_recorder recorder = fixture_recorder(permit);
    const struct misuse misuse = {upload, &silent, &where, permit};
    const struct digest digest = digest_of(DIGEST_SHA256, bytes_of_text("something"));

    (void)state;
    find(upload, permit);
    assert_true(aborts(drop, &misuse));
    MUST(upload_claim(upload, fixture.stack->pg, &err));
    MUST(upload_write(upload, bytes_of_text("something"), &err));
    upload->row.is_counted = true; /* as in a project with a quota */
    for (size_t i = 0; i < COUNT(misuses); i++) assert_true(aborts(misuses[i], &misuse));
    upload->row.is_counted = false;
    MUST(upload_commit(upload, fixture.stack->pg, &digest, &recorder.recorder, &err)); /* all bytes are still there */
}

/* A caller that names the action itself could count what a deletion would remove, under a permit for something else. */
static void a_deletion_is_counted_under_its_own_permit(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "permit/erase");
    char digest[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&where, 1, 100, digest);
    OWNED(permit) *permit = fixture_permit(ACTION_TAG_LIST, &where);
    assert_true(aborts(count_by_another_action, &(struct misuse){.where = &where, .permit = permit}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(upload_read_permits_no_change),
        cmocka_unit_test(upload_write_permits_no_commit),
        cmocka_unit_test(nothing_is_done_before_it_is_found),
        cmocka_unit_test(nothing_is_removed_without_a_claim_and_a_record),
        cmocka_unit_test(a_deletion_is_counted_under_its_own_permit),
    };

    return cmocka_run_group_tests_name("permits of uploads", tests, fixture_set_up, fixture_tear_down);
}
