/* The answers of the routes for runners: what is taken, with its bounds, and what is refused. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "runner/calls/answers.h"
#include "runner/calls/start.h"

static const struct heartbeat_row {
    const char *name, *text;
    const char *says; /* of the refusal; NULL: it is taken */
    bool stop;
    const char *reason;
    int64_t every_ms;
} heartbeats[] = {
    {"it goes on", "{\"state\":\"running\",\"stop\":false,\"every_ms\":10000}", NULL, false, "", 10000},
    {"it stops", "{\"state\":\"cancelled\",\"stop\":true,\"reason\":\"by alice\",\"every_ms\":10000}", NULL, true, "by alice",
     10000},
    {"a newer registry says more", "{\"state\":\"running\",\"stop\":false,\"every_ms\":5000,\"load\":3}", NULL, false, "", 5000},
    {"too often", "{\"state\":\"running\",\"stop\":false,\"every_ms\":1}", NULL, false, "", 1000},
    {"too rarely", "{\"state\":\"running\",\"stop\":false,\"every_ms\":9000000}", NULL, false, "", 60000},
    {"a reason that steers", "{\"state\":\"a\",\"stop\":true,\"reason\":\"x\\u001b[1m\",\"every_ms\":1000}", NULL, true, "x?[1m",
     1000},
    {"no state", "{\"stop\":false,\"every_ms\":10000}", "state", false, NULL, 0},
    {"a long state", "{\"state\":\"0123456789012345678901234567890123456789\",\"stop\":false,\"every_ms\":1}", "state", false,
     NULL, 0},
    {"no stop", "{\"state\":\"running\",\"every_ms\":10000}", "stop", false, NULL, 0},
    {"a stop that is a number", "{\"state\":\"running\",\"stop\":0,\"every_ms\":10000}", "stop", false, NULL, 0},
    {"a reason that is a number", "{\"state\":\"running\",\"stop\":true,\"reason\":1,\"every_ms\":10000}", "reason", false, NULL,
     0},
    {"no time", "{\"state\":\"running\",\"stop\":false}", "every_ms", false, NULL, 0},
    {"a list", "[]", "state", false, NULL, 0},
    {"no JSON", "ok", "", false, NULL, 0},
};

static void check_heartbeat(void **state)
{
    const struct heartbeat_row *row = *state;
    struct heartbeat_answer answer;
    struct error err = {0};

    const bool taken = answer_read_heartbeat(bytes_of_text(row->text), &answer, &err).ok;
    if (taken != (row->says == NULL)) fail_msg("%s", taken ? "it is taken" : err.message);
    if (!taken) assert_non_null(strstr(err.message, row->says));
    if (!taken) return;
    assert_int_equal(answer.stop, row->stop);
    assert_string_equal(answer.reason, row->reason);
    assert_true(answer.every_ms == row->every_ms);
}

static const struct start_row {
    const char *name, *text;
    const char *says;
    size_t count; /* of other nodes */
    int64_t every_ms;
} starts[] = {
    {"the others are waited for", "{\"ready\":false,\"every_ms\":1000}", NULL, 0, 1000},
    {"too often", "{\"ready\":false,\"every_ms\":1}", NULL, 0, 200},
    {"too rarely", "{\"ready\":false,\"every_ms\":900000}", NULL, 0, 10000},
    {"all are there",
     "{\"ready\":true,\"peers\":[{\"node\":1,\"listen\":\"127.0.0.1:1\",\"lease\":\"a\",\"certificate\":\"c\"},"
     "{\"node\":2,\"lease\":\"b\",\"certificate\":\"d\"}]}",
     NULL, 2, 0},
    {"nobody else is", "{\"ready\":true,\"peers\":[],\"more\":1}", NULL, 0, 0},
    {"not said", "{\"peers\":[]}", "ready", 0, 0},
    {"no list", "{\"ready\":true}", "peers", 0, 0},
    {"no time", "{\"ready\":false}", "every_ms", 0, 0},
    {"no number of a node", "{\"ready\":true,\"peers\":[{\"lease\":\"a\"}]}", "node", 0, 0},
    {"a number below", "{\"ready\":true,\"peers\":[{\"node\":-1,\"lease\":\"a\"}]}", "node", 0, 0},
    {"a number beyond", "{\"ready\":true,\"peers\":[{\"node\":256,\"lease\":\"a\"}]}", "node", 0, 0},
    {"no lease", "{\"ready\":true,\"peers\":[{\"node\":1}]}", "lease", 0, 0},
    {"no certificate", "{\"ready\":true,\"peers\":[{\"node\":1,\"lease\":\"a\"}]}", "certificate", 0, 0},
    {"a place that is a number", "{\"ready\":true,\"peers\":[{\"node\":1,\"lease\":\"a\",\"certificate\":\"c\",\"listen\":1}]}",
     "listen", 0, 0},
    {"no JSON", "ready", "", 0, 0},
};

static void check_start(void **state)
{
    const struct start_row *row = *state;
    struct start_answer answer;
    struct error err = {0};

    const bool taken = start_answer_read(bytes_of_text(row->text), &answer, &err).ok;
    if (taken != (row->says == NULL)) fail_msg("%s", taken ? "it is taken" : err.message);
    if (!taken) assert_non_null(strstr(err.message, row->says));
    if (!taken) return;
    assert_int_equal(answer.count, row->count);
    assert_true(answer.every_ms == row->every_ms && answer.is_ready == (row->every_ms == 0));
    if (row->count == 2) assert_true(answer.peers[0].node == 1 && answer.peers[1].listen == NULL);
    start_answer_done(&answer);
}

static const struct token_row {
    const char *name, *text;
    const char *says;
    int64_t lifetime_s;
} tokens[] = {
    {"a token", "{\"access_token\":\"abc.DEF-_~+/=\",\"expires_in\":600}", NULL, 600},
    {"no token", "{\"expires_in\":600}", "access_token", 0},
    {"an empty one", "{\"access_token\":\"\",\"expires_in\":600}", "access_token", 0},
    {"a second header", "{\"access_token\":\"a\\r\\nX-Y: z\",\"expires_in\":600}", "access_token", 0},
    {"no life", "{\"access_token\":\"a\"}", "expires_in", 0},
    {"over already", "{\"access_token\":\"a\",\"expires_in\":0}", "expires_in", 0},
    {"for ever", "{\"access_token\":\"a\",\"expires_in\":2592001}", "expires_in", 0},
};

static void check_token(void **state)
{
    const struct token_row *row = *state;
    struct buffer OWNED_BUFFER token = BUFFER(16384);
    int64_t lifetime_s = 0;
    struct error err = {0};

    const bool taken = answer_read_token(bytes_of_text(row->text), &token, &lifetime_s, &err).ok;
    if (taken != (row->says == NULL)) fail_msg("%s", taken ? "it is taken" : err.message);
    if (taken) assert_true(lifetime_s == row->lifetime_s && strcmp(buffer_text(&token), "abc.DEF-_~+/=") == 0);
    else assert_true(strstr(err.message, row->says) != NULL && token.length == 0);
}

static void a_token_has_a_largest_size(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(32768), token = BUFFER(16384);
    int64_t lifetime_s = 0;
    struct error err = {0};

    (void)state;
    for (size_t length = 12288; length <= 12289; length++) {
        buffer_clear(&text);
        must(buffer_add_text(&text, "{\"expires_in\":1,\"access_token\":\"", &err), &err);
        for (size_t i = 0; i < length; i++) must(buffer_add_u8(&text, 'x', &err), &err);
        must(buffer_add_text(&text, "\"}", &err), &err);
        assert_int_equal(answer_read_token(buffer_bytes(&text), &token, &lifetime_s, &err).ok, length == 12288);
    }
}

static const struct small_row {
    const char *name, *text;
    bool is_suspension;
    int64_t offset;    /* -1: it has none */
    const char *state; /* NULL: it has none */
} smalls[] = {
    {"a suspension", "{\"type\":\"runner-suspended\",\"title\":\"x\"}", true, -1, NULL},
    {"by a URN", "{\"type\":\"urn:sijil:problem:runner-suspended\"}", true, -1, NULL},
    {"by a URL", "{\"type\":\"https://registry.example/problems/runner-suspended\"}", true, -1, NULL},
    {"another word", "{\"type\":\"urn:not-runner-suspended\"}", false, -1, NULL},
    {"another conflict", "{\"type\":\"about:blank\",\"offset\":12}", false, 12, NULL},
    {"a negative offset", "{\"offset\":-1}", false, -1, NULL},
    {"a fraction", "{\"offset\":1.5}", false, -1, NULL},
    {"a state", "{\"state\":\"finishing\"}", false, -1, "finishing"},
    {"no JSON", "{", false, -1, NULL},
};

static void check_small(void **state)
{
    const struct small_row *row = *state;
    const struct bytes text = bytes_of_text(row->text);
    char shown[ANSWER_STATE_SIZE] = "";
    uint64_t offset = 0;
    struct error err = {0};

    assert_int_equal(answer_is_suspension(text), row->is_suspension);
    assert_int_equal(answer_read_offset(text, &offset, &err).ok, row->offset >= 0);
    if (row->offset >= 0) assert_true((int64_t)offset == row->offset);
    assert_int_equal(answer_read_result(text, shown, &err).ok, row->state != NULL);
    if (row->state != NULL) assert_string_equal(shown, row->state);
}

#define QUEUED                                                                                                                       \
    "\"run\":\"3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11\",\"nodes\":1,\"cpus\":2,\"memory_bytes\":1048576,\"time_s\":600,\"devices\":0," \
    "\"regions\":[\"ae/dxb\"],"

static const struct queue_row {
    const char *name, *text;
    const char *says; /* NULL: it is taken */
    size_t count;
} queues[] = {
    {"nothing", "{\"runs\":[],\"more\":false}", NULL, 0},
    {"one run", "{\"runs\":[{" QUEUED "\"attempt\":1,\"held\":false}],\"more\":true}", NULL, 1},
    {"two runs", "{\"runs\":[{" QUEUED "\"attempt\":1,\"held\":false},{" QUEUED "\"attempt\":2,\"held\":true}],\"more\":false}",
     NULL, 2},
    {"no list", "{\"more\":false}", "runs", 0},
    {"no end", "{\"runs\":[]}", "more", 0},
    {"no attempt", "{\"runs\":[{" QUEUED "\"held\":false}],\"more\":false}", "attempt", 0},
    {"attempt zero", "{\"runs\":[{" QUEUED "\"attempt\":0,\"held\":false}],\"more\":false}", "attempt", 0},
    {"too many attempts", "{\"runs\":[{" QUEUED "\"attempt\":101,\"held\":false}],\"more\":false}", "attempt", 0},
    {"held by a number", "{\"runs\":[{" QUEUED "\"attempt\":1,\"held\":0}],\"more\":false}", "held", 0},
    {"a run that is no UUID", "{\"runs\":[{\"run\":\"x\"}],\"more\":false}", "run", 0},
    {"a type that is a number", "{\"runs\":[{" QUEUED "\"attempt\":1,\"held\":true,\"device_type\":1}],\"more\":false}", NULL, 1},
};

static void check_queue(void **state)
{
    const struct queue_row *row = *state;
    struct queue_answer queue = {.count = 0};
    struct error err = {0};

    const bool taken = answer_read_queue(bytes_of_text(row->text), &queue, &err).ok;
    if (taken != (row->says == NULL)) fail_msg("%s", taken ? "it is taken" : err.message);
    if (!taken) assert_non_null(strstr(err.message, row->says));
    else assert_int_equal(queue.count, row->count);
    if (taken && row->count > 0) assert_string_equal(queue.runs[0].regions[0], "ae/dxb");
    queue_answer_done(&queue);
}

static struct result read_all(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER token = BUFFER(64);
    struct heartbeat_answer answer;
    struct queue_answer queue;
    char state[ANSWER_STATE_SIZE];
    int64_t lifetime_s = 0;
    uint64_t offset = 0;

    (void)context;
    TRY(answer_read_heartbeat(bytes_of_text(heartbeats[1].text), &answer, err));
    TRY(answer_read_queue(bytes_of_text(queues[2].text), &queue, err));
    queue_answer_done(&queue);
    TRY(answer_read_token(bytes_of_text(tokens[0].text), &token, &lifetime_s, err));
    TRY(answer_read_result(bytes_of_text("{\"state\":\"finishing\"}"), state, err));
    return answer_read_offset(bytes_of_text("{\"offset\":3}"), &offset, err);
}

static void no_memory_is_no_other_answer(void **state)
{
    (void)state;
    fail_each(read_all, NULL, ERROR_NO_MEMORY, 20);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(no_memory_is_no_other_answer),
                                              cmocka_unit_test(a_token_has_a_largest_size)};

    return RUN_TABLE(heartbeats, check_heartbeat) + RUN_TABLE(tokens, check_token) + RUN_TABLE(starts, check_start) +
           RUN_TABLE(smalls, check_small) + RUN_TABLE(queues, check_queue) + cmocka_run_group_tests(tests, NULL, NULL);
}
