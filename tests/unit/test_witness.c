/* A witness: its answers, its folder, and that whatever dies when, it cosigns one root for each size. */
#include "tests/unit/witness_fixture.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/fault.h"

/* ---- the protocol ---- */

/* V4 of the contract: from 3 to 8, byte for byte; and 409 for a witness at 5. */
static void the_vector_is_answered_byte_for_byte(void **state)
{
    const json_t *expected = vector(vectors, "witness_add_checkpoint_3_to_8");
    const struct bytes body = bytes_of_text(json_text_of(expected, "body"));
    struct buffer OWNED_BUFFER text = BUFFER(2048), note = BUFFER(4096);
    struct fixture fixture;
    struct error err = {0};

    (void)state;
    make_fixture(&fixture);
    assert_int_equal(submit_sizes(&fixture, &fixture.honest, 0, 3), 200);
    assert_int_equal(submit(&fixture, body, SOME_TIME_S, &text), 200);
    assert_string_equal(buffer_text(&text), json_text_of(expected, "response_200"));
    must(watched_log_note(witness_state_find(fixture.state, ORIGIN), &note, &err), &err);
    assert_string_equal(buffer_text(&note), json_text_of(vectors, "cosigned_checkpoint_8"));
    const char *path = json_text_of(vectors, "witness_monitoring_path");
    char hex[2 * 32 + 1];
    (void)snprintf(hex, sizeof hex, "%s", path + 1);
    assert_ptr_equal(witness_state_find_hex(fixture.state, hex), witness_state_find(fixture.state, ORIGIN));
    hex[0] = 'f';
    assert_null(witness_state_find_hex(fixture.state, hex));
    free_fixture(&fixture);

    make_fixture(&fixture);
    buffer_clear(&text);
    assert_int_equal(submit_sizes(&fixture, &fixture.honest, 0, 5), 200);
    assert_int_equal(submit(&fixture, body, SOME_TIME_S, &text), 409);
    assert_string_equal(buffer_text(&text), json_text_of(expected, "response_409_body_if_witness_at_5"));
    free_fixture(&fixture);
}

/* A witness at 5 of the honest history. */
static const struct answer_row {
    const char *name;
    uint64_t old_size, size;
    bool is_forked;
    unsigned status;
} answers[] = {
    {"it continues", 5, 8, false, 200},
    {"the same again", 5, 5, false, 200},
    {"from zero, but something was seen", 0, 8, false, 409},
    {"from an older size", 3, 8, false, 409},
    {"from a newer size", 7, 8, false, 409},
    {"the old size is larger than the new one", 8, 5, false, 400},
    {"backwards, and the old size is larger", 5, 3, false, 400},
    {"backwards from an older size", 3, 3, false, 409},
    {"another root of the same size", 5, 5, true, 422},
    {"another history", 5, 8, true, 422},
};

static void the_answer_is(void **state)
{
    const struct answer_row *row = *state;
    struct fixture fixture;

    make_fixture(&fixture);
    assert_int_equal(submit_sizes(&fixture, &fixture.honest, 0, 5), 200);
    assert_int_equal(submit_sizes(&fixture, row->is_forked ? &fixture.forked : &fixture.honest, row->old_size, row->size),
                     row->status);
    const struct watched_position position = watched_log_position(witness_state_find(fixture.state, ORIGIN));
    assert_int_equal(position.size, row->status == 200 ? row->size : 5);
    close_state(&fixture);
    open_state(&fixture); /* the disk says the same */
    const struct watched_position again = watched_log_position(witness_state_find(fixture.state, ORIGIN));
    assert_true(again.size == position.size && merkle_hash_equal(&again.root, &position.root) && again.time_s == position.time_s);
    free_fixture(&fixture);
}

static unsigned submit_with(struct fixture *fixture, const char *head, const struct buffer *note)
{
    struct buffer OWNED_BUFFER body = BUFFER(ADD_CHECKPOINT_MAX);
    struct error err = {0};

    must(buffer_add_text(&body, head, &err), &err);
    must(buffer_add(&body, note->data, note->length, &err), &err);
    return submit(fixture, buffer_bytes(&body), SOME_TIME_S, NULL);
}

#define HASH "ApjRIpBtz8EIkstTpzmS/FufST6kybrbJ7eRtBJ6f+c=\n"

static void what_is_malformed_or_unsigned_moves_nothing(void **state)
{
    struct buffer OWNED_BUFFER good = BUFFER(2048), bad = BUFFER(2048), stranger = BUFFER(2048), empty = BUFFER(2048),
                               other = BUFFER(2048);
    struct fixture fixture;
    struct error err = {0};

    (void)state;
    make_fixture(&fixture);
    checkpoint_note(&fixture, &fixture.honest, 4, &good);
    must(buffer_add(&bad, good.data, good.length, &err), &err);
    bad.data[good.length - 20] = bad.data[good.length - 20] == 'A' ? 'B' : 'A';
    assert_int_equal(submit_with(&fixture, "", &good), 400);
    assert_int_equal(submit_with(&fixture, "old 0\n", &good), 400);
    assert_int_equal(submit_with(&fixture, "old x\n\n", &good), 400);
    assert_int_equal(submit(&fixture, bytes_of_text(""), SOME_TIME_S, NULL), 400);
    assert_int_equal(submit_with(&fixture, "old 0\n\n", &bad), 403);
    assert_int_equal(submit_with(&fixture, "old 0\n" HASH "\n", &good), 422); /* from nothing there is no proof */
    sign_note(&fixture, bytes_of_text("sijil.example/other\n4\n" HASH), &stranger);
    assert_int_equal(submit_with(&fixture, "old 0\n\n", &stranger), 404);
    sign_note(&fixture, bytes_of_text("no checkpoint\n"), &other);
    assert_int_equal(submit_with(&fixture, "old 0\n\n", &other), 400);
    sign_note(&fixture, bytes_of_text(ORIGIN "\n0\n" HASH), &empty);
    assert_int_equal(submit_with(&fixture, "old 0\n\n", &empty), 422); /* an empty log has one root */
    assert_int_equal(watched_log_position(witness_state_find(fixture.state, ORIGIN)).size, 0);
    assert_int_equal(submit_with(&fixture, "old 0\n\n", &good), 200);
    assert_int_equal(submit_with(&fixture, "old 4\n" HASH "\n", &good), 422); /* nor from a log to itself */
    free_fixture(&fixture);
}

/* Signatures of strangers are allowed beside the log's, and left out of what monitors get. */
static void strangers_signatures_are_not_handed_on(void **state)
{
    struct buffer OWNED_BUFFER body = BUFFER(4096), note = BUFFER(4096);
    struct fixture fixture;
    struct error err = {0};

    (void)state;
    make_fixture(&fixture);
    make_body(&fixture, &fixture.honest, 0, 4, &body);
    must(buffer_add_text(&body, "\xe2\x80\x94 stranger.example AAAAAAAAAAAA\n", &err), &err);
    assert_int_equal(submit(&fixture, buffer_bytes(&body), SOME_TIME_S, NULL), 200);
    must(watched_log_note(witness_state_find(fixture.state, ORIGIN), &note, &err), &err);
    assert_null(strstr(buffer_text(&note), "stranger"));
    assert_non_null(strstr(buffer_text(&note), "witness.example/w1"));
    free_fixture(&fixture);
}

static void the_time_never_goes_back(void **state)
{
    struct buffer OWNED_BUFFER body = BUFFER(4096), first = BUFFER(2048), second = BUFFER(2048);
    struct fixture fixture;

    (void)state;
    make_fixture(&fixture);
    make_body(&fixture, &fixture.honest, 0, 4, &body);
    assert_int_equal(submit(&fixture, buffer_bytes(&body), SOME_TIME_S, &first), 200);
    buffer_clear(&body);
    make_body(&fixture, &fixture.honest, 4, 4, &body);
    assert_int_equal(submit(&fixture, buffer_bytes(&body), SOME_TIME_S - 100, &second), 200);
    assert_string_equal(buffer_text(&first), buffer_text(&second));
    assert_int_equal(watched_log_position(witness_state_find(fixture.state, ORIGIN)).time_s, SOME_TIME_S);
    free_fixture(&fixture);
}

/* ---- the folder ---- */

static void write_into(const struct fixture *fixture, const char *content)
{
    struct buffer OWNED_BUFFER name = BUFFER(200);
    struct error err = {0};

    must(buffer_format(&name, &err, "%.64s.log", json_text_of(vectors, "witness_monitoring_path") + 1), &err);
    if (content == NULL) assert_int_equal(unlinkat(fixture->directory, buffer_text(&name), 0), 0);
    else must(file_replace_at(fixture->directory, buffer_text(&name), bytes_of_text(content), 0600, &err), &err);
}

static void a_lost_state_is_asked_for(void **state)
{
    struct fixture fixture;
    struct error err = {0};

    (void)state;
    make_fixture(&fixture);
    assert_int_equal(submit_sizes(&fixture, &fixture.honest, 0, 8), 200);
    close_state(&fixture);
    assert_false(witness_state_accept(fixture.directory, fixture.list, ORIGIN, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    write_into(&fixture, NULL); /* lost */
    open_state(&fixture);
    assert_int_equal(submit_sizes(&fixture, &fixture.forked, 0, 8), 404);
    assert_int_equal(submit_sizes(&fixture, &fixture.honest, 8, 10), 404);
    assert_false(witness_state_accept(fixture.directory, fixture.list, ORIGIN, &err).ok); /* while a witness runs */
    assert_int_equal(err.kind, ERROR_CONFLICT);
    close_state(&fixture);
    assert_false(witness_state_accept(fixture.directory, fixture.list, "sijil.example/other", &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    must(witness_state_accept(fixture.directory, fixture.list, ORIGIN, &err), &err);
    open_state(&fixture);
    assert_int_equal(submit_sizes(&fixture, &fixture.honest, 0, 10), 200);
    free_fixture(&fixture);
}

static void two_processes_do_not_share_a_folder(void **state)
{
    struct witness_state *second = NULL;
    struct fixture fixture;
    struct error err = {0};

    (void)state;
    make_fixture(&fixture);
    assert_false(witness_state_open(fixture.directory, fixture.list, &fixture.identity.key, &second, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_null(second);
    free_fixture(&fixture);
}

static void a_damaged_state_is_no_start(void **state)
{
    static const char *const contents[] = {"",
                                           "sijil-witness/v1",
                                           "sijil-witness/v1 sijil.example/other\n",
                                           "sijil-witness/v2 " ORIGIN "\n",
                                           "sijil-witness/v1 " ORIGIN "\nx",
                                           "sijil-witness/v1 " ORIGIN "\n" ORIGIN "\n4\n" HASH "\n"};
    struct buffer OWNED_BUFFER unsigned_note = BUFFER(4096);
    struct witness_state *opened = NULL;
    struct fixture fixture;
    struct error err = {0};

    (void)state;
    make_fixture(&fixture);
    close_state(&fixture);
    for (size_t i = 0; i < COUNT(contents); i++) {
        write_into(&fixture, contents[i]);
        assert_false(witness_state_open(fixture.directory, fixture.list, &fixture.identity.key, &opened, &err).ok);
        assert_int_equal(err.kind, ERROR_CORRUPT);
    }
    /* Signed by the log, but not by this witness: somebody wrote it. */
    must(buffer_add_text(&unsigned_note, "sijil-witness/v1 " ORIGIN "\n", &err), &err);
    checkpoint_note(&fixture, &fixture.forked, 8, &unsigned_note);
    write_into(&fixture, buffer_text(&unsigned_note));
    assert_false(witness_state_open(fixture.directory, fixture.list, &fixture.identity.key, &opened, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    free_fixture(&fixture);
}

/* ---- whatever dies when ---- */

static void die(enum fault_kind kind)
{
    (void)kind;
    (void)raise(SIGKILL);
}

static struct fault_plan plan;

/* In a process of its own: submits 3 to 8, and is killed at the n-th step that can fail. Returns whether the cosignature left. */
static bool child_cosigns(struct fixture *fixture, const struct buffer *body, unsigned long nth, bool *was_killed_out)
{
    int pipe_ends[2], status = 0;
    char got = 0;

    assert_int_equal(pipe(pipe_ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct witness witness = {&fixture->identity, fixture->state};
        struct witness_answer answer = {.text = BUFFER(WITNESS_ANSWER_MAX)};
        struct error err = {0};
        atomic_store(&plan.first, nth);
        atomic_store(&plan.last, nth);
        atomic_store(&plan.kinds, ~0ULL);
        fault_follow(&plan, die);
        if (witness_add(&witness, buffer_bytes(body), SOME_TIME_S, &answer, &err).ok && answer.status == 200)
            (void)!write(pipe_ends[1], "y", 1);
        _exit(0);
    }
    (void)close(pipe_ends[1]);
    const bool has_left = read(pipe_ends[0], &got, 1) == 1 && got == 'y';
    (void)close(pipe_ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    *was_killed_out = WIFSIGNALED(status);
    return has_left;
}

static void a_kill_at_any_step_leaves_one_root_for_each_size(void **state)
{
    unsigned long nth = 1, before = 0, after = 0;

    (void)state;
    for (bool was_killed = true; was_killed; nth++) {
        struct buffer OWNED_BUFFER body = BUFFER(ADD_CHECKPOINT_MAX);
        struct fixture fixture;
        make_fixture(&fixture);
        assert_int_equal(submit_sizes(&fixture, &fixture.honest, 0, 3), 200);
        make_body(&fixture, &fixture.honest, 3, 8, &body);
        const bool has_left = child_cosigns(&fixture, &body, nth, &was_killed);
        close_state(&fixture);
        open_state(&fixture); /* the next start */
        const uint64_t size = watched_log_position(witness_state_find(fixture.state, ORIGIN)).size;
        assert_true(size == 8 || (size == 3 && !has_left));
        const bool is_fork_cosigned = submit_sizes(&fixture, &fixture.forked, size, 8) == 200;
        assert_true(!has_left || !is_fork_cosigned);
        assert_int_equal(submit_sizes(&fixture, &fixture.honest, 8, 8), is_fork_cosigned ? 422 : size == 3 ? 409 : 200);
        before += size == 3;
        after += size == 8;
        assert_true(was_killed || has_left);
        free_fixture(&fixture);
    }
    print_message("%lu kills\n", nth - 2);
    assert_true(nth > 12 && before > 5 && after > 1);
}

static void a_failure_at_any_step_leaves_one_root_for_each_size(void **state)
{
    unsigned long nth = 1, failures = 0;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        struct buffer OWNED_BUFFER body = BUFFER(ADD_CHECKPOINT_MAX);
        struct witness_answer answer = {.text = BUFFER(WITNESS_ANSWER_MAX)};
        struct fixture fixture;
        struct error err = {0};
        make_fixture(&fixture);
        assert_int_equal(submit_sizes(&fixture, &fixture.honest, 0, 3), 200);
        make_body(&fixture, &fixture.honest, 3, 8, &body);
        const struct witness witness = {&fixture.identity, fixture.state};
        fault_arm(nth);
        const bool ok = witness_add(&witness, buffer_bytes(&body), SOME_TIME_S, &answer, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        const bool has_left = ok && answer.status == 200;
        assert_true(has_left || has_fired);
        failures += !has_left;
        buffer_done(&answer.text);
        /* It cosigns nothing any more if the disk may have the new position; else it goes on. */
        if (!has_left && watched_log_position(witness_state_find(fixture.state, ORIGIN)).is_broken)
            assert_int_equal(submit_sizes(&fixture, &fixture.forked, 3, 8), 503);
        close_state(&fixture);
        open_state(&fixture);
        const uint64_t size = watched_log_position(witness_state_find(fixture.state, ORIGIN)).size;
        assert_true(size == 8 || (size == 3 && !has_left));
        assert_true(submit_sizes(&fixture, &fixture.forked, size, 8) != 200 || !has_left);
        free_fixture(&fixture);
    }
    assert_failures(failures, 10);
}

struct opening {
    struct fixture *fixture;
};

static struct result open_once(void *context, struct error *err)
{
    struct fixture *fixture = ((struct opening *)context)->fixture;
    OWNED(witness_state) *opened = NULL;

    return witness_state_open(fixture->directory, fixture->list, &fixture->identity.key, &opened, err);
}

static void opening_survives_every_failure(void **state)
{
    struct fixture fixture;
    struct opening opening = {&fixture};

    (void)state;
    make_fixture(&fixture);
    assert_int_equal(submit_sizes(&fixture, &fixture.honest, 0, 3), 200);
    close_state(&fixture);
    fail_each(open_once, &opening, ERROR_NONE, 6);
    free_fixture(&fixture);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(the_vector_is_answered_byte_for_byte),
        cmocka_unit_test(what_is_malformed_or_unsigned_moves_nothing),
        cmocka_unit_test(strangers_signatures_are_not_handed_on),
        cmocka_unit_test(the_time_never_goes_back),
        cmocka_unit_test(a_lost_state_is_asked_for),
        cmocka_unit_test(two_processes_do_not_share_a_folder),
        cmocka_unit_test(a_damaged_state_is_no_start),
        cmocka_unit_test(a_kill_at_any_step_leaves_one_root_for_each_size),
        cmocka_unit_test(a_failure_at_any_step_leaves_one_root_for_each_size),
        cmocka_unit_test(opening_survives_every_failure),
    };

    read_vectors();
    const int failed = RUN_TABLE(answers, the_answer_is) + cmocka_run_group_tests_name("others", others, NULL, NULL);
    json_decref(vectors);
    return failed;
}
