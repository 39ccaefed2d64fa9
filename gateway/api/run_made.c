/* What a run's readers get as lists: kept checkpoints and nodes; by run_doubts.c doubts, and by run_outputs.c admitted outputs. */
#include "gateway/api/run_priv.h"
#include "training/checkpoint.h"

SCHEMA(run_output, "an admitted output", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, 63, "as in the request"),
       HAS_TEXT("repository", REQUIRED, FORM_FREE, 5, 255, "where it was stored"),
       HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "of its manifest; its referrers say how it was made"))

SCHEMA(run_checkpoint, "a checkpoint that is kept; nobody can pull it, and a request can name it",
       HAS_TEXT("repository", REQUIRED, FORM_FREE, 5, 255, "the two members of a request's `resume`"),
       HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "of its manifest"),
       HAS_NUMBER("attempt", REQUIRED, 1, 100, "the newest that has brought it"), HAS_COUNT("bytes", REQUIRED, "of its files"),
       HAS_TIME("kept", REQUIRED, "when it came"),
       HAS_TIME("until", OPTIONAL, "when it goes, of an ended run; absent while an open run is to continue from it"))

SCHEMA(run_node, "a node of the newest attempt", HAS_NUMBER("node", REQUIRED, 0, 255, "which one"),
       HAS_ID("runner", REQUIRED, "that has its lease"),
       HAS_WORD("phase", REQUIRED, "leased fetching waiting running finishing lost finished refused returned stopped",
                "what its runner does; or how its lease ended"),
       HAS_NUMBER("progress", OPTIONAL, 0, 100, "in percent, as its program says"))

static json_t *describe_node(const struct pg_rows *rows, size_t row)
{
    const struct uuid id = pg_uuid(rows, row, RUN_NODE_RUNNER);
    const int64_t progress = pg_int8(rows, row, RUN_NODE_PROGRESS);
    char runner[UUID_TEXT_SIZE];

    uuid_format(&id, runner);
    json_t *value = json_pack("{s:I, s:s, s:s}", "node", (json_int_t)pg_int8(rows, row, RUN_NODE_NUMBER), "runner", runner,
                              "phase", pg_text(rows, row, RUN_NODE_PHASE));
    if (value == NULL || progress < 0 || json_object_set_new(value, "progress", json_integer(progress)) == 0) return value;
    json_decref(value);
    return NULL;
}

static json_t *describe_checkpoint(const struct pg_rows *rows, size_t row)
{
    json_t *value =
        json_pack("{s:s, s:s, s:I, s:I}", "repository", pg_text(rows, row, RUN_CHECKPOINT_REPOSITORY), "digest",
                  pg_text(rows, row, RUN_CHECKPOINT_DIGEST), "attempt", (json_int_t)pg_int8(rows, row, RUN_CHECKPOINT_ATTEMPT),
                  "bytes", (json_int_t)pg_int8(rows, row, RUN_CHECKPOINT_BYTES));

    if (value != NULL && api_set_time(value, "kept", pg_time_ms(rows, row, RUN_CHECKPOINT_KEPT)) &&
        (pg_is_null(rows, row, RUN_CHECKPOINT_UNTIL) ||
         api_set_time(value, "until", pg_time_ms(rows, row, RUN_CHECKPOINT_UNTIL))))
        return value;
    json_decref(value);
    return NULL;
}

/* A member of a run that is a list of rows; without rows there is no such member. */
struct rows_member {
    const char *name;
    struct result (*read)(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *run,
                          struct pg_rows **rows_out, struct error *err);
    json_t *(*describe)(const struct pg_rows *rows, size_t row);
};

static struct result add_rows(const struct request *request, struct pg *pg, const struct uuid *id,
                              const struct rows_member *member, json_t *value, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    OWNED_JSON list = json_array();

    TRY(member->read(request->permit, pg, ACTION_RUN_READ, id, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++)
        if (json_array_append_new(list, member->describe(rows, i)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    if (pg_rows_count(rows) == 0 || json_object_set(value, member->name, list) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
}

struct result run_add_lists(const struct request *request, struct pg *pg, const struct uuid *id, json_t *value, struct error *err)
{
    static const struct rows_member members[] = {{"checkpoints", run_checkpoints, describe_checkpoint},
                                                 {"nodes", run_nodes, describe_node}};

    TRY(run_add_doubts(request, pg, id, value, err));
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) TRY(add_rows(request, pg, id, &members[i], value, err));
    return run_add_outputs(request, pg, id, value, err);
}
