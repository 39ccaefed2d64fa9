/* Configuration files: their values, and all of their errors. */
#include "tests/unit/file_fixture.h"

#include <fcntl.h>
#include <string.h>

#include "base/config.h"
#include "base/fault.h"

#define SAMPLE_PARAMETERS(X)                                   \
    X(TEXT, address, "127.0.0.1", 0, 0, "", "Where to listen") \
    X(INTEGER, port, "8443", 1, 65535, "", "The port")         \
    X(BOOLEAN, verbose, "no", 0, 0, "", "Say more")            \
    X(TEXT, secret_file, NULL, 0, 0, "", "Where the secret is")
#define PLACE_PARAMETERS(X) X(INTEGER, weight, "1", 0, 9, "kg", "How heavy")

struct place {
    char title[CONFIG_TEXT_SIZE];
    PLACE_PARAMETERS(CONFIG_FIELD)
};
struct sample {
    SAMPLE_PARAMETERS(CONFIG_FIELD)
    struct place places[2];
    size_t place_count;
};

static const struct config_parameter place_parameters[] = {
#define X(...) CONFIG_ROW(struct place, __VA_ARGS__)
    PLACE_PARAMETERS(X)
#undef X
};
static const struct config_parameter sample_parameters[] = {
#define X(...) CONFIG_ROW(struct sample, __VA_ARGS__)
    SAMPLE_PARAMETERS(X)
#undef X
};
static const struct config_section sections[] = {{"place", "A place", place_parameters, COUNT(place_parameters),
                                                  sizeof(struct place), 2, offsetof(struct sample, places),
                                                  offsetof(struct sample, place_count)}};
static const struct config_removed gone[] = {{"pasword", "put it elsewhere"}};
static const struct config_form form = {sample_parameters, COUNT(sample_parameters), sections, COUNT(sections), gone,
                                        COUNT(gone)};

static const struct config_row {
    const char *name, *text, *message; /* message NULL: accepted */
} config_rows[] = {
    {"only what must be given", "secret_file = \"/x\"", NULL},
    {"a section", "secret_file = /x\nplace \"a/b\" { weight = 3 }\n", NULL},
    {"what must be given is missing", "port = 1", "secret_file must be given: Where the secret is"},
    {"a name with an error", "secret_file = /x\nprot = 1\n", "did you mean 'port'?"},
    {"a port too large", "secret_file = /x\nport = 65536", "a whole number from 1 to 65535"},
    {"a port that is no number", "secret_file = /x\nport = 12x", "a whole number from 1 to 65535"},
    {"neither yes nor no", "secret_file = /x\nverbose = maybe", "yes or no"},
    {"a range in a section", "secret_file = /x\nplace \"a\" { weight = 10 }", "from 0 to 9 kg"},
    {"too many sections", "secret_file=/x\nplace a {}\nplace b {}\nplace c {}\n", "at most 2 sections"},
    {"no closing quote", "secret_file = \"/x", "line"},
    {"a file that ends inside a section", "secret_file = /x\nplace \"a\" {\n weight = 1\n", "a closing } is missing"},
    {"a section that is open before another one", "secret_file = /x\nplace \"a\" {\nplace \"b\" {}\n", "line 3"},
    {"a comment that is open", "secret_file = /x\n/* port = 1\n", "to its end"},
    {"a parameter twice", "secret_file = /x\nport = 1\nport = 1\n", "line 3: 'port' is given twice"},
    {"a parameter of a section twice", "secret_file = /x\nplace a { weight = 1\n weight = 2 }\n",
     "line 3: 'weight' is given twice"},
    {"a name of an older version", "secret_file = /x\npasword = y\n",
     "line 2: 'pasword' must not stand here any more: put it elsewhere"},
};

/* Its error is the first of all errors. */
static bool reads(struct sample *sample, struct error *err)
{
    struct problems problems = problems_first(err);

    return config_read_all(&form, path, sample, &problems) && problems.count == 0;
}

static void reads_configuration(void **state)
{
    const struct config_row *row = *state;
    struct sample sample = {0};
    struct error err = {0};

    write_file(row->text);
    const bool ok = reads(&sample, &err);
    if (row->message == NULL) {
        assert_true(ok);
        assert_int_equal(sample.port, 8443);
        assert_string_equal(sample.secret_file, "/x");
        if (sample.place_count == 1) assert_int_equal(sample.places[0].weight, 3);
        return;
    }
    assert_false(ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    if (strstr(err.message, row->message) == NULL) fail_msg("'%s' has no '%s'", err.message, row->message);
}

/* One file with all of its errors. The row ends with a text that no message may have. */
static const struct all_row {
    const char *name, *text;
    size_t count;
    const char *messages[5];
} all_rows[] = {
    {"values, names and what is missing",
     "prot = 1\nport = 0\nverbose = maybe\nplace \"a\" { weight = 10\n wait = 1 }\n",
     6,
     {"did you mean 'port'?", "line 5: no such option 'wait'", "secret_file must be given", "port = 0", "place a: weight = 10"}},
    {"the same name twice is told once",
     "secret_file = /x\nprot = 1\nprot = 2\nplace \"a\" { prot = 3 }\n",
     1,
     {"did you mean 'port'?"}},
    {"what ends the reading", "nonsense = 1\nsecret_file = \"/x", 2, {"no such option 'nonsense'", "line"}},
    {"names given twice",
     "secret_file = /x\nport = 1\nport = 2\nverbose = yes\nverbose = maybe\nplace a { weight = 1 }\nplace b { weight = 1 }\n",
     3,
     {"line 3: 'port'", "line 5: 'verbose'", "verbose = maybe"}},
    {"a name too long for any of ours",
     "secret_file = /x\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa = 1\n",
     1,
     {"no such option"}},
    {"more names than are told",
     "secret_file = /x\na=1\nb=1\nc=1\nd=1\ne=1\nf=1\ng=1\nh=1\ni=1\nj=1\nk=1\nl=1\nm=1\nn=1\no=1\np=1\nq=1\nr=1\n",
     17,
     {"'a'", "'q'"}},
    {"nothing", "secret_file = /x\n", 0, {NULL}},
};

static void note(void *context, const struct error *why)
{
    struct error ignored = {0};

    assert_int_equal(why->kind, ERROR_INVALID);
    assert_true(buffer_format(context, &ignored, "%s\n", why->message).ok);
}

static void tells_all_that_is_wrong(void **state)
{
    const struct all_row *row = *state;
    struct buffer OWNED_BUFFER told = BUFFER(16384);
    struct problems problems = {.report = note, .context = &told};
    struct sample sample = {0};

    write_file(row->text);
    (void)config_read_all(&form, path, &sample, &problems);
    if (problems.count != row->count) fail_msg("%zu: %s", problems.count, told.length == 0 ? "" : buffer_text(&told));
    for (size_t i = 0; i < COUNT(row->messages) && row->messages[i] != NULL; i++)
        if (strstr(buffer_text(&told), row->messages[i]) == NULL)
            fail_msg("'%s' has no '%s'", buffer_text(&told), row->messages[i]);
}

static void the_sample_is_itself_valid(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(8192);
    struct sample sample = {0};
    struct error err = {0};

    (void)state;
    assert_true(config_write_sample(&form, &text, &err).ok);
    assert_true(buffer_add_text(&text, "secret_file = /y\n", &err).ok);
    write_file(buffer_text(&text));
    assert_true(reads(&sample, &err));
    assert_string_equal(sample.address, "127.0.0.1");
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(the_sample_is_itself_valid),
    };
    int failed = 0;

    if (make_folder(NULL) != 0) return 1;
    failed += RUN_TABLE(config_rows, reads_configuration);
    failed += RUN_TABLE(all_rows, tells_all_that_is_wrong);
    failed += cmocka_run_group_tests_name("others", others, NULL, NULL);
    return failed + (remove_folder(NULL) != 0);
}
