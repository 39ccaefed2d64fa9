/*
 * A specification as a person writes it, in YAML or JSON: what is accepted, written as JSON and read again, is the same; a refusal names the
 * file, and each value has a line of the text.
 */
#include <assert.h>
#include <string.h>

#include "client/commands/run_spec.h"
#include "client/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(unsigned line, unsigned lines_of_text)
{
    assert(line >= 1 && line <= lines_of_text);
}

/* NOLINTNEXTLINE(misc-no-recursion): to JSON_DEPTH_MAX */
static void check_lines(const json_t *value, const json_t *lines, unsigned lines_of_text, unsigned depth)
{
    const char *name;
    json_t *member;

    assert(lines != NULL && depth <= JSON_DEPTH_MAX);
    check_line(yaml_line(lines), lines_of_text);
    for (size_t i = 0; i < json_array_size(value); i++)
        check_lines(json_array_get(value, i), yaml_element(lines, i), lines_of_text, depth + 1);
    json_object_foreach ((json_t *)(uintptr_t)value, name, member)
        check_lines(member, yaml_member(lines, name), lines_of_text, depth + 1);
}

/* Lines end at a line feed alone: at other ends of lines readers of YAML disagree. */
static void check_yaml(struct bytes text)
{
    OWNED_JSON value = NULL;
    OWNED_JSON lines = NULL;
    struct error err = {0};
    unsigned lines_of_text = 1;

    for (size_t i = 0; i < text.length; i++)
        if (text.data[i] == '\n') lines_of_text++;
    if (yaml_read(text, RUN_SPEC_MAX, "name", &value, &lines, &err).ok) check_lines(value, lines, lines_of_text, 0);
    else assert(value == NULL && lines == NULL && strncmp(err.message, "name", 4) == 0);
}

static void check_again(const json_t *spec)
{
    struct buffer OWNED_BUFFER text = BUFFER(16 * RUN_SPEC_MAX), again = BUFFER(16 * RUN_SPEC_MAX);
    static struct report report;
    OWNED_JSON second = NULL;
    struct error err = {0};

    assert(json_write_canonical(&text, spec, &err).ok);
    if (text.length > RUN_SPEC_MAX) return; /* JSON escapes what YAML does not */
    assert(run_spec_parse(buffer_bytes(&text), "again", &report, &second, &err).ok);
    assert(json_write_canonical(&again, second, &err).ok);
    assert(strcmp(buffer_text(&text), buffer_text(&again)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct report report;
    OWNED_JSON spec = NULL;
    struct error err = {0};

    check_yaml((struct bytes){data, size});
    report.explanation[0] = '\0';
    if (run_spec_parse((struct bytes){data, size}, "name", &report, &spec, &err).ok) check_again(spec);
    else assert(spec == NULL && strncmp(err.message, "name", 4) == 0);
    return 0;
}
