#include "client/commands/policy_expectations_priv.h"

#include <stdio.h>
#include <string.h>

#include "client/commands/api_priv.h"
#include "client/yaml.h"
#include "policy/expectation.h"

static bool is_json(struct bytes text)
{
    size_t at = 0;

    while (at < text.length && text.data[at] != '\0' && strchr(" \t\r\n", text.data[at]) != NULL) at++;
    return at < text.length && text.data[at] == '{';
}

/* Almost all JSON is YAML, too: then the lines are those of the same values. */
static struct result read_text(struct bytes text, const char *name, struct expectations *expectations, struct error *err)
{
    OWNED_JSON value = NULL;
    OWNED_JSON lines = NULL;
    struct error none = {0};

    if (!is_json(text))
        return yaml_read(text, POLICY_EXPECTATIONS_BYTES_MAX, name, &expectations->document, &expectations->lines, err);
    TRY(json_read(text, POLICY_EXPECTATIONS_BYTES_MAX, &expectations->document, err));
    if (yaml_read(text, POLICY_EXPECTATIONS_BYTES_MAX, name, &value, &lines, &none).ok &&
        json_equal(value, expectations->document))
        expectations->lines = GIVE(lines);
    return none.kind == ERROR_NO_MEMORY ? api_no_memory(err) : SUCCESS;
}

unsigned expectations_line(const struct expectations *expectations, size_t index)
{
    return yaml_line(yaml_element(yaml_member(expectations->lines, "tests"), index));
}

/* The first test that is wrong by itself, for its line. */
static struct result say_where(const struct expectations *expectations, const char *name, struct error *err)
{
    const json_t *tests = json_object_get(expectations->document, "tests");
    const struct error whole = *err;

    for (size_t i = 0; i < json_array_size(tests); i++) {
        struct error one = {0};
        OWNED_JSON alone = json_pack("{s:[O]}", "tests", json_array_get(tests, i));
        if (alone == NULL) return api_no_memory(err);
        if (policy_expectations_check(alone, &one).ok) continue;
        const unsigned line = expectations_line(expectations, i);
        if (line > 0) return failure(err, one.kind, "%.120s:%u: %.300s", name, line, one.message);
        return failure(err, one.kind, "%.120s: test %zu: %.300s", name, i + 1, one.message);
    }
    return failure(err, whole.kind, "%.120s: %.300s", name, whole.message);
}

struct result expectations_parse(struct bytes text, const char *name, struct expectations *expectations_out, struct error *err)
{
    TRY(read_text(text, name, expectations_out, err));
    return policy_expectations_check(expectations_out->document, err).ok ? SUCCESS : say_where(expectations_out, name, err);
}

void expectations_done(struct expectations *expectations)
{
    json_decref(expectations->document);
    json_decref(expectations->lines);
    *expectations = (struct expectations){.document = NULL};
}
