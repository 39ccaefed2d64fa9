#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/typo.h"
#include "client/address.h"
#include "client/hosts.h"
#include "client/layers.h"
#include "client/layout.h"
#include "client/reference.h"
#include "client/terminal.h"

static const struct title_row {
    const char *name, *title;
    bool safe;
} title_rows[] = {
    {"a file", "model.onnx", true},
    {"a file in a folder", "weights/part-1.bin", true},
    {"a dot at the front", ".config", true},
    {"three dots", "...", true},
    {"other scripts", "\xd9\x86\xd9\x85\xd9\x88\xd8\xb0\xd8\xac.onnx", true},
    {"nothing", "", false},
    {"the folder itself", ".", false},
    {"the folder above", "..", false},
    {"above, then somewhere", "../etc/passwd", false},
    {"down and up", "a/../../b", false},
    {"up at the end", "a/..", false},
    {"a dot in the middle", "a/./b", false},
    {"absolute", "/etc/passwd", false},
    {"an empty part", "a//b", false},
    {"a slash at the end", "a/", false},
    {"a backslash", "a\\..\\b", false},
    {"a line feed", "a\nb", false},
    {"an escape sequence", "\x1b[2J", false},
    {"delete", "a\x7f", false},
    {"Latin-1's CSI in UTF-8",
     "a\xc2\x9b"
     "2J",
     false},
    {"a name that reads as modelexe.onnx", "model\xe2\x80\xaexnno.exe", false},
    {"an isolate in a folder's name",
     "a\xe2\x81\xa7"
     "b/c",
     false},
    {"a line separator",
     "a\xe2\x80\xa8"
     "b",
     false},
    {"letters that join", "\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae.onnx", true},
    {"bytes that are no UTF-8", "a\xff", false},
    {"a file that is on its way: the next pull would go on with it", ".model.onnx.sijil-part", false},
    {"one in a folder", "weights/.a.bin.sijil-part", false},
    {"a visible file that ends so", "a.sijil-part", true},
};

static void titles(void **state)
{
    const struct title_row *row = *state;

    assert_int_equal(title_is_safe(row->title), row->safe);
}

/* Layers as a manifest has them: what a pull takes, and what may be the output of a run. */
#define NAMED(title) "{\"annotations\":{\"org.opencontainers.image.title\":\"" title "\"}}"
static const struct layers_row {
    const char *name, *layers;
    const char *apart, *files; /* what is said; "": nothing */
} layers_rows[] = {
    {"none", "[]", "", ""},
    {"files in folders", "[" NAMED("x/y") "," NAMED("x/z") "," NAMED("x.y") "," NAMED("x-") "]", "", ""},
    {"twice", "[" NAMED("b") "," NAMED("a") "," NAMED("b") "]", "two layers are called 'b'", "two layers are called 'b'"},
    {"a file that is a folder", "[" NAMED("x") "," NAMED("x-1") "," NAMED("x!") "," NAMED("x/y/z") "]",
     "a layer is called 'x', and 'x/y/z' needs a folder", "a layer is called 'x', and 'x/y/z' needs a folder"},
    {"the folder first", "[" NAMED("x/y/z") "," NAMED("x/y") "," NAMED("x.y") "]", "a layer is called 'x/y', and 'x/y/z'",
     "a layer is called 'x/y', and 'x/y/z'"},
    {"one without a title", "[" NAMED("x") ",{\"annotations\":{}},{}]", "", "layer 2 has none"},
    {"no layer at all", "[" NAMED("x") ",null]", "", "layer 2 has none"},
    {"a title that is no text", "[{\"annotations\":{\"org.opencontainers.image.title\":1}}]", "", "layer 1 has none"},
    {"above the folder", "[" NAMED("x") "," NAMED("../x") "]", "", "the title of layer 2 is no path below a folder"},
    {"absolute", "[" NAMED("/etc/x") "]", "", "the title of layer 1 is no path"},
    {"the folder itself", "[" NAMED(".") "]", "", "the title of layer 1 is no path"},
    {"of no letters", "[" NAMED("") "]", "", "the title of layer 1 is no path"},
    {"of two lines", "[" NAMED("a\\nb") "]", "", "the title of layer 1 is no path"},
    {"a part file", "[" NAMED(".a.sijil-part") "]", "", "the title of layer 1 is no path"},
    {"ModelPack's path, the same",
     "[{\"annotations\":{\"org.opencontainers.image.title\":\"x\",\"org.cncf.model.filepath\":\"x\"}}]", "", ""},
    {"ModelPack's path, another",
     "[{\"annotations\":{\"org.opencontainers.image.title\":\"x\",\"org.cncf.model.filepath\":\"y\"}}]", "",
     "layer 1 has two titles"},
    {"ModelPack's path alone", "[{\"annotations\":{\"org.cncf.model.filepath\":\"x\"}}," NAMED("x") "]",
     "two layers are called 'x'", "layer 1 has none"},
    {"oras would unpack it",
     "[{\"annotations\":{\"org.opencontainers.image.title\":\".x\",\"io.deis.oras.content.unpack\":\"true\"}}]", "",
     "layer 1 has an annotation that is neither"},
    {"an archive for ModelPack's tools",
     "[{\"mediaType\":\"application/vnd.CNCF.model.weight.v1.tar\",\"annotations\":{\"org.opencontainers.image.title\":\"x\"}}]",
     "", "layer 1 is an archive by its type"},
    {"a type that their tools do not know",
     "[{\"mediaType\":\"application/vnd.cncf.model.weight.v1.RAW\",\"annotations\":{\"org.opencontainers.image.title\":\"x\"}}]",
     "", "layer 1 is an archive by its type"},
    {"a file for them",
     "[{\"mediaType\":\"application/vnd.cncf.model.weight.v1.raw\",\"annotations\":{\"org.opencontainers.image.title\":\"x\"}}]",
     "", ""},
};

static void check_said(struct result checked, const struct error *err, const char *wanted)
{
    assert_int_equal(checked.ok, wanted[0] == '\0');
    if (checked.ok) return;
    assert_int_equal(err->kind, ERROR_INVALID);
    if (strstr(err->message, wanted) == NULL) fail_msg("said: %s", err->message);
}

static void layers_become_the_same_files_for_all(void **state)
{
    const struct layers_row *row = *state;
    OWNED_JSON layers = NULL;
    struct error err = {0};

    must(json_read(bytes_of_text(row->layers), 1000, &layers, &err), &err);
    check_said(titles_check_apart(layers, &err), &err, row->apart);
    check_said(titles_check_files(layers, &err), &err, row->files);
}

/* Else the pull would fail when it renames a part file, and leave it. */
static void a_pull_refuses_a_file_that_is_a_folder(void **state)
{
    OWNED_JSON layers = NULL;
    struct error err = {0};

    (void)state;
    must(json_read(bytes_of_text("[" NAMED("x") "," NAMED("x/y") "]"), 1000, &layers, &err), &err);
    check_said(layers_check(layers, &err), &err, "refused: a layer is called 'x'");
}

/* ---- failing memory ---- */

static struct result check_two(void *context, struct error *err)
{
    return titles_check_files(context, err);
}

static void titles_need_memory(void **state)
{
    OWNED_JSON layers = NULL;
    struct error err = {0};

    (void)state;
    must(json_read(bytes_of_text("[" NAMED("x") "," NAMED("y") "]"), 1000, &layers, &err), &err);
    fail_each(check_two, layers, ERROR_NO_MEMORY, 1);
}

static void kinds_of_layers(void **state)
{
    (void)state;
    assert_string_equal(layer_media_type("model.onnx", false), "application/vnd.cncf.model.weight.v1.raw");
    assert_string_equal(layer_media_type("tokenizer.json", false), "application/vnd.cncf.model.weight.config.v1.raw");
    assert_string_equal(layer_media_type("README.md", false), "application/vnd.cncf.model.doc.v1.raw");
    assert_string_equal(layer_media_type("README.md", true), "application/vnd.cncf.model.dataset.v1.raw");
    assert_string_equal(layer_media_type("src/Train.PY", false), "application/vnd.cncf.model.code.v1.raw");
    assert_string_equal(layer_media_type("data.csv", false), "application/vnd.cncf.model.dataset.v1.raw");
    assert_string_equal(layer_media_type("metrics.jsonl", false), "application/vnd.cncf.model.dataset.v1.raw");
    assert_string_equal(layer_media_type("model.safetensors", false), "application/vnd.cncf.model.weight.v1.raw");
}

/* ModelPack's config names the whole and not its first file; the format is that of all weights. */
static const struct config_row {
    const char *name;
    const char *titles[4];
    const char *format; /* NULL: it is not stated */
} config_rows[] = {
    {"one model", {"model.onnx"}, "onnx"},
    {"a licence first", {"LICENSE", "model.onnx", "train.py"}, "onnx"},
    {"weights of two formats", {"model.onnx", "model.safetensors"}, NULL},
    {"no weights", {"train.py", "data.csv"}, NULL},
};

static void a_config_describes_the_whole(void **state)
{
    const struct config_row *row = *state;
    struct layer_file files[4] = {{.path = NULL}};
    struct buffer OWNED_BUFFER config = BUFFER(4096);
    OWNED_JSON value = NULL;
    struct error err = {0};
    size_t count = 0;

    for (; count < sizeof files / sizeof files[0] && row->titles[count] != NULL; count++) {
        files[count].media_type = layer_media_type(row->titles[count], false);
        (void)snprintf(files[count].title, sizeof files[count].title, "%s", row->titles[count]);
        (void)snprintf(files[count].digest, sizeof files[count].digest, "sha256:0123");
    }
    must(layout_config("digits", files, count, &config, &err), &err);
    must(json_read(buffer_bytes(&config), 4096, &value, &err), &err);
    assert_string_equal(json_text_of(json_object_get(value, "descriptor"), "name"), "digits");
    const char *format = json_text_of(json_object_get(value, "config"), "format");
    assert_int_equal(format == NULL, row->format == NULL);
    if (format != NULL) assert_string_equal(format, row->format);
    assert_int_equal(json_array_size(json_object_get(json_object_get(value, "modelfs"), "diffIds")), count);
}

static const struct sanitize_row {
    const char *name, *text, *sanitized;
} sanitize_rows[] = {
    {"plain text", "model v1", "model v1"},
    {"other scripts", "\xd9\x86\xe4\xb8\xad\xf0\x9f\x8e\x93", "\xd9\x86\xe4\xb8\xad\xf0\x9f\x8e\x93"},
    {"colours", "no \x1b[31m", "no ?[31m"},
    {"a second line that seems ours", "a\nsijil: done\r", "a?sijil: done?"},
    {"Latin-1's CSI in UTF-8",
     "\xc2\x9b"
     "2J",
     "??2J"},
    {"a blank that does not break is no control character",
     "a\xc2\xa0"
     "b",
     "a\xc2\xa0"
     "b"},
    {"a letter that was cut", "\xe4\xb8", "??"},
    {"bytes that are no UTF-8", "\xff\x80", "??"},
    {"an overlong slash", "\xc0\xaf", "??"},
    {"half of a pair", "\xed\xa0\x80", "???"},
    {"delete", "\x7f", "?"},
    {"a right-to-left override", "model\xe2\x80\xaexnno.exe", "model???xnno.exe"},
    {"the first embedding", "\xe2\x80\xaa", "???"},
    {"the first isolate, and the end of one",
     "\xe2\x81\xa6"
     "a\xe2\x81\xa9",
     "???a???"},
    {"the last that is deprecated", "\xe2\x81\xaf", "???"},
    {"a line and a paragraph separator", "\xe2\x80\xa8\xe2\x80\xa9", "??????"},
    {"marks of direction", "\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", "????????"},
    {"an hyphen before them, a narrow blank behind them", "\xe2\x80\x90\xe2\x80\xaf", "\xe2\x80\x90\xe2\x80\xaf"},
    {"letters that join", "\xe2\x80\x8c\xe2\x80\x8d", "\xe2\x80\x8c\xe2\x80\x8d"},
};

static void sanitized(void **state)
{
    const struct sanitize_row *row = *state;
    char text[64];

    (void)snprintf(text, sizeof text, "%s", row->text);
    terminal_sanitize(text);
    assert_string_equal(text, row->sanitized);
    assert_int_equal(terminal_is_printable(row->text), strcmp(row->text, row->sanitized) == 0);
    assert_true(terminal_is_printable(text));
}

static const struct path_row {
    const char *name, *path, *title; /* title NULL: refused */
} path_rows[] = {
    {"as it is", "model.onnx", "model.onnx"},
    {"a relative path is kept", "weights/a.bin", "weights/a.bin"},
    {"a leading dot goes", "././weights/a.bin", "weights/a.bin"},
    {"an absolute path loses its folders", "/srv/models/a.onnx", "a.onnx"},
    {"a climbing one too", "../a.onnx", "a.onnx"},
    {"only a folder", "a/", NULL},
    {"only dots", "..", NULL},
};

static void titles_of_paths(void **state)
{
    const struct path_row *row = *state;
    char title[1024] = "untouched";
    struct error err = {0};

    const bool ok = layer_title(row->path, title, sizeof title, &err).ok;
    assert_int_equal(ok, row->title != NULL);
    assert_string_equal(title, row->title == NULL ? "untouched" : row->title);
}

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
static const struct reference_row {
    const char *name, *text, *host, *repository, *reference; /* host NULL: refused */
    bool is_digest;
} reference_rows[] = {
    {"a tag", "reg.example/acme/models/digits:v1", "reg.example", "acme/models/digits", "v1", false},
    {"a port", "127.0.0.1:8443/acme/models/digits:v1", "127.0.0.1:8443", "acme/models/digits", "v1", false},
    {"no tag", "reg.example/acme/models/digits", "reg.example", "acme/models/digits", "latest", false},
    {"a deep name", "reg.example/acme/models/a/b/c:v1", "reg.example", "acme/models/a/b/c", "v1", false},
    {"a digest", "reg.example/acme/models/digits@sha256:" HEX64, "reg.example", "acme/models/digits", "sha256:" HEX64, true},
    {"a tag and a digest", "reg.example:1/acme/models/digits:v1@sha256:" HEX64, "reg.example:1", "acme/models/digits",
     "sha256:" HEX64, true},
    {"no tag before a digest", "reg.example/acme/models/digits:@sha256:" HEX64, NULL, NULL, NULL, false},
    {"a wrong tag before a digest", "reg.example/acme/models/digits:a+b@sha256:" HEX64, NULL, NULL, NULL, false},
    {"a tag before a short digest", "reg.example/acme/models/digits:v1@sha256:12", NULL, NULL, NULL, false},
    {"IPv6", "[::1]:8443/acme/models/digits:v1", "[::1]:8443", "acme/models/digits", "v1", false},
    {"no host", "digits:v1", NULL, NULL, NULL, false},
    {"an empty host", "/acme/models/digits", NULL, NULL, NULL, false},
    {"two segments", "reg.example/acme/digits:v1", NULL, NULL, NULL, false},
    {"capitals", "reg.example/Acme/models/digits:v1", NULL, NULL, NULL, false},
    {"an empty tag", "reg.example/acme/models/digits:", NULL, NULL, NULL, false},
    {"a tag with a slash", "reg.example/acme/models/digits:a/b", NULL, NULL, NULL, false},
    {"a short digest", "reg.example/acme/models/digits@sha256:12", NULL, NULL, NULL, false},
    {"a scheme", "https://reg.example/acme/models/digits:v1", NULL, NULL, NULL, false},
    {"a user in the host", "user@reg.example/acme/models/digits", NULL, NULL, NULL, false},
    {"a user with a secret", "u:SECRET@reg.example/acme/models/digits", NULL, NULL, NULL, false},
    {"a secret with a slash", "u:SEC/SECRET@reg.example/acme/models/digits", NULL, NULL, NULL, false},
    {"a secret with an at", "u:SECRET@SECRET@reg.example/acme/models/digits", NULL, NULL, NULL, false},
    {"a secret before a digest", "u:SECRET@reg.example/acme/models/digits@sha256:" HEX64, NULL, NULL, NULL, false},
    {"a secret in a URL", "https://SECRET@reg.example/acme/models/digits", NULL, NULL, NULL, false},
};

static void references(void **state)
{
    const struct reference_row *row = *state;
    struct remote_reference reference = {.host = "untouched"};
    struct error err = {0};

    const bool ok = remote_reference_parse(row->text, &reference, &err).ok;
    assert_int_equal(ok, row->host != NULL);
    assert_string_equal(reference.host, ok ? row->host : "untouched");
    assert_null(strstr(err.message, "SECRET"));
    if (strstr(row->text, "SECRET") != NULL) assert_non_null(strstr(err.message, "sijil login"));
    if (!ok) return;
    assert_string_equal(reference.repository, row->repository);
    assert_string_equal(reference.reference, row->reference);
    assert_int_equal(reference.is_digest, row->is_digest);
}

static const struct hostless_row {
    const char *name, *text;
} hostless_rows[] = {
    {"with a tag", "acme/models/digits:v1"},
    {"with a digest", "acme/models/digits@sha256:" HEX64},
    {"alone", "acme/models/digits"},
};

static void a_forgotten_host_is_asked_for(void **state)
{
    const struct hostless_row *row = *state;
    struct remote_reference reference;
    struct error err = {0};

    assert_false(remote_reference_parse(row->text, &reference, &err).ok);
    assert_non_null(strstr(err.message, "is the host missing?"));
}

static const struct typo_row {
    const char *name, *given, *meant; /* NULL: nothing is near */
} typo_rows[] = {
    {"the word itself", "check", "check"},         {"a letter too few", "chek", "check"},
    {"neighbours swapped", "hepl", "help"},        {"a letter too many", "replayy", "replay"},
    {"a wrong letter", "proog", "proof"},          {"half of the letters", "pr", NULL},
    {"another word", "quetzalcoatl", NULL},        {"nothing", "", NULL},
    {"a word beyond all room", HEX64 HEX64, NULL},
};

static void typing_errors(void **state)
{
    static const char *const names[] = {"check", "help", "proof", "replay", "try"};
    const struct typo_row *row = *state;
    const char *nearest = typo_nearest(row->given, names, sizeof names / sizeof names[0]);

    assert_int_equal(nearest == NULL, row->meant == NULL);
    if (nearest != NULL) assert_string_equal(nearest, row->meant);
}

static const struct hidden_row {
    const char *name, *text, *shown;
} hidden_rows[] = {
    {"a URL of libcurl's", "Unsupported proxy syntax in 'http://u:SECRET@proxy:1/x'",
     "Unsupported proxy syntax in 'http://proxy:1/x'"},
    {"two of them", "http://u@a and https://v:w@x@b/c@d", "http://a and https://b/c@d"},
    {"none", "https://host/a@b alice@bank.example acme/x@sha256:00", "https://host/a@b alice@bank.example acme/x@sha256:00"},
    {"nothing behind", "https://u@", "https://"},
};

static void user_information_is_hidden(void **state)
{
    const struct hidden_row *row = *state;
    char text[128];

    (void)snprintf(text, sizeof text, "%s", row->text);
    address_hide(text);
    assert_string_equal(text, row->shown);
}

static const struct proxy_row {
    const char *name, *text; /* text NULL: SIJIL_PROXY is not set */
    const char *proxy;       /* NULL: refused */
} proxy_rows[] = {
    {"none", NULL, ""},
    {"an empty one", "", ""},
    {"a host and a port", "http://proxy.example:3128", "http://proxy.example:3128"},
    {"with a secret", "http://u:SECRET@proxy.example:3128", "http://u:SECRET@proxy.example:3128"},
    {"over TLS", "https://u:SECRET@proxy.example", NULL},
    {"another protocol", "socks5://u:SECRET@proxy.example", NULL},
    {"none named", "u:SECRET@proxy.example:3128", NULL},
    {"no host", "http://", NULL},
    {"a path alone", "http:///SECRET", NULL},
    {"a space", "http://proxy SECRET", NULL},
    {"a line more", "http://proxy\nSECRET", NULL},
};

static void the_environment_names_a_proxy_by_our_name_alone(void **state)
{
    const struct proxy_row *row = *state;
    struct host_login login = {.proxy = ""};
    struct error err = {0};

    assert_int_equal(row->text == NULL ? unsetenv("SIJIL_PROXY") : setenv("SIJIL_PROXY", row->text, 1), 0);
    assert_int_equal(setenv("HTTPS_PROXY", "http://elsewhere:1", 1), 0);
    assert_true(host_proxy_is_expected());
    assert_int_equal(host_proxy_find(&login, &err).ok, row->proxy != NULL);
    assert_string_equal(login.proxy, row->proxy == NULL ? "" : row->proxy);
    assert_null(strstr(err.message, "SECRET"));
    if (row->proxy == NULL) assert_int_equal(err.kind, ERROR_INVALID);
    assert_int_equal(setenv("HTTPS_PROXY", "", 1), 0);
    assert_false(host_proxy_is_expected());
}

int main(void)
{
    const struct CMUnitTest memory[] = {cmocka_unit_test(titles_need_memory), cmocka_unit_test(kinds_of_layers),
                                        cmocka_unit_test(a_pull_refuses_a_file_that_is_a_folder)};

    return cmocka_run_group_tests(memory, NULL, NULL) + RUN_TABLE(layers_rows, layers_become_the_same_files_for_all) +
           RUN_TABLE(config_rows, a_config_describes_the_whole) + RUN_TABLE(title_rows, titles) +
           RUN_TABLE(path_rows, titles_of_paths) + RUN_TABLE(sanitize_rows, sanitized) + RUN_TABLE(reference_rows, references) +
           RUN_TABLE(hostless_rows, a_forgotten_host_is_asked_for) + RUN_TABLE(typo_rows, typing_errors) +
           RUN_TABLE(hidden_rows, user_information_is_hidden) +
           RUN_TABLE(proxy_rows, the_environment_names_a_proxy_by_our_name_alone);
}
