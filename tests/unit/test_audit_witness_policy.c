/* Policies of witnesses: the form, and which cosignatures are a quorum (C2SP tlog-policy). */
#include "tests/support/unit.h"

#include <string.h>

#include "audit/format/witness_answer.h"
#include "audit/format/witness_policy.h"

#define LOG  "sijil.example/audit+c63c23bb+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"
#define W0   "witness.example/w0+253ebc85+BEOnLnFEAXYt9mtowm373yaCquyfJHTspGE+QkoPuv08"
#define W1   "witness.example/w1+efcd800c+BGa+fjMsekUzMr2dCn99sFX1xe8aBq2mbZizn7aBDEc6"
#define W2   "witness.example/w2+023facbb+BAtROtm0kkAVygkC7QeQRNOsXb7CMG8GlIwQ2o62458t"
#define W3   "witness.example/w3+581ff7a9+BJGiigt0OBWTpNlGlXkgiSavyK2CyIObdkQ1m566mks6"
#define W4   "witness.example/w4+30175896+BAvu9anmeeaj4TT+J4N7/zLHy19dROoJvLDlQrrWpMDM"
#define OLD  "witness.example/old+4b55d9b7+AekutgVP6bxoKhvPO3WfZas4pM+9gcTR8zQuTMnN7YsL"
#define TWO  "witness X1 " W0 "\nwitness X2 " W1 "\nwitness X3 " W2 "\n"
#define FIVE TWO "witness Y1 " W3 "\nwitness Y2 " W4 "\n"
#define DEEP FIVE "group X 2 X1 X2 X3\ngroup Y any Y1 Y2\ngroup all-of-them all X Y\nquorum all-of-them\n"

/* The checkpoint and the cosignature of the vectors (docs/formats/audit-log.md section 12). */
#define CHECKPOINT                                                                                              \
    "sijil.example/audit\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=\n\n\xe2\x80\x94 sijil.example/audit " \
    "1YnYQ7gXlAQYz2wiPL0qLiENl9YIAKRa7cM9aqXP2rc1LV76Y9S21qXCwVlbsL7m4cr9CjweJvPy5iO4kSvLgD376QU=\n"
#define COSIGNATURE                    \
    "\xe2\x80\x94 witness.example/w1 " \
    "IDJKvgAAAABpVbkA4kOQ3U4H3nU4ku+ue1Ub9CUfwdjDMkDwk3oNPlbcPcu5yKgsGLBugD7jyFt83dqVC2o/QyiulAjqAvo1I8XfAw==\n"
#define COSIGNER "witness.example/w1+20324abe+BCmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X"
#define TIME_S   1767225600

static void what_is_no_policy_is_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "no line \"quorum\""},
        {"witness a " W0 "\n", "no line \"quorum\""},
        {"quorum\n", "line 1"},
        {"quorum none none\n", "line 1"},
        {"quorum none\nquorum none\n", "line 2"},
        {"quorum a\nwitness a " W0 "\n", "line above"},
        {"quorum none\r\n", "not text"},
        {"# \x7f\nquorum none\n", "not text"},
        {"log\nquorum none\n", "line 1"},
        {"log " LOG " a b\nquorum none\n", "line 1"},
        {"log " LOG "\nlog " LOG "\nquorum none\n", "listed twice"},
        {"log " W0 "\nquorum none\n", "signs checkpoints"},
        {"witness a\nquorum none\n", "line 1"},
        {"witness a " W0 " u v\nquorum none\n", "line 1"},
        {"witness none " W0 "\nquorum none\n", "word of the format"},
        {"witness a " W0 "\nwitness a " W1 "\nquorum a\n", "used twice"},
        {"witness a " W0 "\nwitness b " W0 "\nquorum a\n", "count twice"},
        {"witness a " W0 "x\nquorum a\n", "line 1"},
        {"group g any\nquorum g\n", "threshold"},
        {"witness a " W0 "\ngroup g 0 a\nquorum g\n", "threshold"},
        {"witness a " W0 "\ngroup g 2 a\nquorum g\n", "threshold"},
        {"witness a " W0 "\ngroup g 01 a\nquorum g\n", "threshold"},
        {"witness a " W0 "\ngroup g any none\nquorum g\n", "not the name"},
        {"group g any g\nquorum g\n", "not the name"},
        {"witness a " W0 "\ngroup g any a\ngroup h any a\nquorum g\n", "count twice"},
        {"witness a " W0 "\ngroup a any a\nquorum a\n", "used twice"},
        {"other a\nquorum none\n", "line 1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        OWNED(witness_policy) *policy = NULL;
        struct error err = {0};
        if (witness_policy_read(bytes_of_text(rows[i].text), &policy, &err).ok) fail_msg("accepted: %s", rows[i].text);
        assert_int_equal(err.kind, ERROR_INVALID);
        if (strstr(err.message, rows[i].why) == NULL) fail_msg("%s: %s", rows[i].text, err.message);
    }
}

static void a_policy_has_limits(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(WITNESS_POLICY_BYTES_MAX + 100);
    OWNED(witness_policy) *policy = NULL;
    struct error err = {0};

    (void)state;
    must(buffer_add_text(&text, "witness a " W0 "\ngroup g0 any a\n", &err), &err);
    for (unsigned i = 1; i < WITNESS_POLICY_GROUPS_MAX; i++)
        must(buffer_format(&text, &err, "group g%u any g%u\n", i, i - 1), &err);
    const size_t length = text.length;
    must(buffer_format(&text, &err, "quorum g%u", WITNESS_POLICY_GROUPS_MAX - 1), &err);
    must(witness_policy_read(buffer_bytes(&text), &policy, &err), &err);
    const uint64_t times_s[WITNESS_POLICY_WITNESSES_MAX] = {5};
    assert_true(witness_policy_is_met(policy, times_s, 5) && !witness_policy_is_met(policy, times_s, 6));
    buffer_truncate(&text, length);
    must(buffer_format(&text, &err, "group one-more any g%u\nquorum none\n", WITNESS_POLICY_GROUPS_MAX - 1), &err);
    assert_false(witness_policy_read(buffer_bytes(&text), &policy, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    buffer_clear(&text);
    while (text.length <= WITNESS_POLICY_BYTES_MAX) must(buffer_add_text(&text, "# filled\n", &err), &err);
    assert_false(witness_policy_read(buffer_bytes(&text), &policy, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

static void a_quorum_is_counted_through_groups(void **state)
{
    static const struct {
        const char *policy;
        uint64_t times_s[5]; /* of W0 to W4 */
        uint64_t since_s;    /* the latest for which it is met; 0: it is not met */
    } rows[] = {
        {DEEP, {0, 0, 0, 0, 0}, 0},
        {DEEP, {9, 9, 9, 0, 0}, 0},
        {DEEP, {9, 0, 0, 9, 9}, 0},
        {DEEP, {9, 0, 7, 5, 0}, 5},
        {DEEP, {9, 8, 7, 5, 6}, 6},
        {DEEP, {9, 1, 1, 9, 9}, 1},
        {TWO "group g 2 X1 X2 X3\nquorum g\n", {3, 0, 4}, 3},
        {TWO "group g all X1 X2 X3\nquorum g\n", {3, 0, 4}, 0},
        {TWO "group g all X1 X2 X3\nquorum g\n", {3, 2, 4}, 2},
        {TWO "group g any X1 X2\nquorum g\n", {0, 0, 4}, 0},
        {TWO "quorum X2\n", {3, 0, 4}, 0},
        {TWO "quorum X2", {0, 8, 0}, 8},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        OWNED(witness_policy) *policy = NULL;
        uint64_t times_s[WITNESS_POLICY_WITNESSES_MAX] = {0};
        struct error err = {0};
        must(witness_policy_read(bytes_of_text(rows[i].policy), &policy, &err), &err);
        memcpy(times_s, rows[i].times_s, sizeof rows[i].times_s);
        for (uint64_t since_s = 1; since_s < 12; since_s++)
            if (witness_policy_is_met(policy, times_s, since_s) != (rows[i].since_s >= since_s))
                fail_msg("row %zu, since %llu", i, (unsigned long long)since_s);
    }
}

static void read_rows(const char *text, struct witness_policy **policy_out)
{
    struct error err = {0};

    must(witness_policy_read(bytes_of_text(text), policy_out, &err), &err);
}

static void cosignatures_are_judged(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(1000);
    OWNED(witness_policy) *policy = NULL;
    OWNED(witness_policy) *none = NULL;
    struct witness_verdict verdict;
    struct note note;
    struct error err = {0};

    (void)state;
    read_rows("witness mine " COSIGNER "\nwitness other " W0 "\ngroup g 1 mine other\nquorum g\n", &policy);
    must(note_read(bytes_of_text(CHECKPOINT), &note, &err), &err);
    must(witness_policy_judge(policy, &note, &verdict, &err), &err);
    assert_true(!verdict.is_met && verdict.count == 0 && verdict.since_s == 0);
    must(witness_policy_describe(policy, &verdict, &text, &err), &err);
    assert_string_equal(buffer_text(&text), "0 of 2 witnesses have cosigned, and the quorum is not met");
    must(note_read(bytes_of_text(CHECKPOINT COSIGNATURE), &note, &err), &err);
    must(witness_policy_judge(policy, &note, &verdict, &err), &err);
    assert_true(verdict.is_met && verdict.count == 1 && verdict.since_s == TIME_S && verdict.times_s[1] == 0);
    buffer_clear(&text);
    must(witness_policy_describe(policy, &verdict, &text, &err), &err);
    assert_string_equal(buffer_text(&text), "1 of 2 witnesses have cosigned (mine), and the quorum is met");
    read_rows("quorum none", &none);
    must(witness_policy_judge(none, &note, &verdict, &err), &err);
    assert_true(verdict.is_met && verdict.since_s == 0);
}

static void a_false_cosignature_is_no_weak_one(void **state)
{
    char changed[] = CHECKPOINT COSIGNATURE;
    OWNED(witness_policy) *policy = NULL;
    struct witness_verdict verdict;
    struct note note;
    struct error err = {0};

    (void)state;
    read_rows("witness mine " COSIGNER "\nwitness other " W0 "\ngroup g any mine other\nquorum g\n", &policy);
    *(strstr(changed, "AAAABpVb") + 7) = 'c'; /* the time */
    must(note_read(bytes_of_text(changed), &note, &err), &err);
    assert_false(witness_policy_judge(policy, &note, &verdict, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
}

static void old_keys_and_listed_logs(void **state)
{
    OWNED(witness_policy) *policy = NULL;
    OWNED(witness_policy) *open = NULL;
    struct log_keys log, other;
    struct error err = {0};

    (void)state;
    read_rows("log " LOG " https://sijil.example/audit\nwitness w " OLD " https://w.example/x\nquorum w\n", &policy);
    assert_int_equal(policy->witnesses[0].key.algorithm, NOTE_COSIGNATURE);
    assert_string_equal(policy->witnesses[0].url, "https://w.example/x");
    must(log_keys_read(bytes_of_text(LOG), &log, &err), &err);
    must(log_keys_read(bytes_of_text("sijil.example/audit+d589d843+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"), &other, &err),
         &err);
    assert_true(witness_policy_is_about(policy, &log) && !witness_policy_is_about(policy, &other));
    read_rows("quorum none\n", &open);
    assert_true(witness_policy_is_about(open, &other));
}

static void answers_are_believed_for_a_cosignature_alone(void **state)
{
    static const struct {
        const char *answer;
        bool is_good;
    } rows[] = {
        {COSIGNATURE, true},
        {COSIGNATURE COSIGNATURE, true},
        {"\xe2\x80\x94 other.example/w AAAAAAAAAABpVbkA\n" COSIGNATURE, true},
        {"\xe2\x80\x94 other.example/w AAAAAAAAAABpVbkA\n", false},
        {"", false},
        {"not signed\n", false},
        {"another text\n\n" COSIGNATURE, false},
    };
    struct note_key key, stranger;

    (void)state;
    struct error err = {0};
    must(note_key_read(bytes_of_text(COSIGNER), &key, &err), &err);
    must(note_key_read(bytes_of_text(W0), &stranger, &err), &err);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buffer OWNED_BUFFER line = BUFFER(COSIGNATURE_LINE_MAX);
        const struct bytes answer = bytes_of_text(rows[i].answer);
        uint64_t time_s = 0;
        if (witness_answer_read(bytes_of_text(CHECKPOINT), answer, &key, &line, &time_s, &err).ok != rows[i].is_good)
            fail_msg("row %zu: %s", i, err.message);
        if (rows[i].is_good) assert_string_equal(buffer_text(&line), COSIGNATURE);
        if (rows[i].is_good) assert_int_equal(time_s, TIME_S);
        assert_false(witness_answer_read(bytes_of_text(CHECKPOINT), answer, &stranger, &line, &time_s, &err).ok);
        assert_int_equal(err.kind, ERROR_DENIED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_policy_is_refused),
        cmocka_unit_test(a_policy_has_limits),
        cmocka_unit_test(a_quorum_is_counted_through_groups),
        cmocka_unit_test(cosignatures_are_judged),
        cmocka_unit_test(a_false_cosignature_is_no_weak_one),
        cmocka_unit_test(old_keys_and_listed_logs),
        cmocka_unit_test(answers_are_believed_for_a_cosignature_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
