#include "documents/format/runner_code_file.h"

#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "documents/format/document_priv.h"

#define SCHEMA "sijil.runner-code/v1"

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for the code of a runner, or text that is not UTF-8");
}

static struct result read_invitation(const json_t *json, struct runner_code_file *file, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUNNER_INVITATION_MAX);

    TRY(json_write_canonical(&text, json, err));
    return runner_invitation_read(buffer_bytes(&text), &file->invitation, err);
}

static struct result read_registry(const json_t *json, struct runner_code_file *file, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(REGISTRY_PINS_MAX);

    TRY(json_write_canonical(&text, json, err));
    return registry_pins_read(buffer_bytes(&text), &file->registry, err);
}

static struct result check_together(const struct runner_code_file *file, struct error *err)
{
    if (!uuid_equal(&file->code.runner, &file->invitation->runner))
        return failure(err, ERROR_INVALID, "code and invitation are of different runners");
    if (strcmp(file->invitation->audience, file->registry.audience) != 0)
        return failure(err, ERROR_INVALID, "invitation and registry are of different registries");
    if (file->registry.has_ca == (file->ca.length > 0)) return SUCCESS;
    return failure(err, ERROR_INVALID, "ca: the certificates of authorities stand in the file exactly if registry has ca_file");
}

static struct result fill(struct runner_code_file *file, const json_t *json, struct error *err)
{
    const char *schema = NULL, *code = NULL, *ca = NULL;
    const json_t *invitation = NULL, *registry = NULL;

    TRY(document_unpack(json, "the file of a code", err, "{s:s, s:s, s:o, s:o, s?:s}", "schema", &schema, "code", &code,
                        "invitation", &invitation, "registry", &registry, "ca", &ca));
    if (strcmp(schema, SCHEMA) != 0) return failure(err, ERROR_INVALID, "schema: " SCHEMA);
    if (!runner_code_read(bytes_of_text(code), &file->code))
        return failure(err, ERROR_INVALID, "code: sjr_ and 64 letters, digits, - and _");
    if (ca != NULL) TRY(buffer_add_text(&file->ca, ca, err));
    TRY(read_invitation(invitation, file, err));
    TRY(read_registry(registry, file, err));
    return check_together(file, err);
}

struct result runner_code_file_read(struct bytes text, struct runner_code_file **file_out, struct error *err)
{
    OWNED(runner_code_file) *file = memory_zeroed(1, sizeof *file);
    OWNED_JSON json = NULL;

    if (file == NULL) return no_memory(err);
    file->ca = BUFFER(RUNNER_CODE_CA_MAX);
    TRY(json_read(text, RUNNER_CODE_FILE_MAX, &json, err));
    if (!json_is_object(json)) return failure(err, ERROR_INVALID, "the file of a code is a JSON object");
    TRY(fill(file, json, err));
    *file_out = GIVE(file);
    return SUCCESS;
}

static struct result add_ca(json_t *json, struct bytes ca, struct error *err)
{
    if (ca.length == 0) return SUCCESS;
    return json_object_set_new(json, "ca", json_stringn((const char *)ca.data, ca.length)) == 0 ? SUCCESS : no_memory(err);
}

struct result runner_code_file_write(const struct runner_code_parts *parts, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER pins = BUFFER(REGISTRY_PINS_MAX);
    OWNED(runner_code_file) *checked = NULL;
    OWNED_JSON invitation = NULL;
    OWNED_JSON registry = NULL;

    TRY(registry_pins_write(parts->registry, &pins, err));
    TRY(json_read(parts->invitation, RUNNER_INVITATION_MAX, &invitation, err));
    TRY(json_read(buffer_bytes(&pins), REGISTRY_PINS_MAX, &registry, err));
    OWNED_JSON json =
        json_pack("{s:s, s:s, s:O, s:O}", "schema", SCHEMA, "code", parts->code, "invitation", invitation, "registry", registry);
    if (json == NULL) return no_memory(err);
    TRY(add_ca(json, parts->ca, err));
    TRY(json_write_canonical(text, json, err));
    return runner_code_file_read(buffer_bytes(text), &checked, err);
}

void runner_code_file_free(struct runner_code_file *file)
{
    if (file == NULL) return;
    secret_wipe(&file->code, sizeof file->code);
    runner_invitation_free(file->invitation);
    buffer_done(&file->ca);
    free(file);
}
