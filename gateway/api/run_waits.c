/* Why a run waits: the runners that have asked for work lately, and what they lack. Runners of other tenants are not counted (training/run.h). */
#include <string.h>

#include "gateway/api/run_priv.h"

PART(run_lack, "a reason why runners can't take the run",
     HAS_WORD("what", REQUIRED, "region jurisdiction isolation assurance cpus memory devices nodes enrolment rest",
              "what is lacking (docs/runs.md)"),
     HAS_COUNT("runners", REQUIRED, "how many runners lack it"))

SCHEMA(run_runners,
       "the runners that could get an ordered run by their scope and pool, and asked for work in the last two minutes",
       HAS_COUNT("asked", REQUIRED, "how many"),
       HAS_COUNT("fit", REQUIRED, "how many of them lack nothing: an older run, or one of several nodes, may come first"),
       HAS_COUNT("busy", OPTIONAL, "how many have not asked, because they execute other runs of the organisation; absent: none"),
       HAS_LIST("lack", REQUIRED, 16, schema_run_lack, "what the others lack, the most frequent first"))

static struct result add_row(const struct pg_rows *rows, size_t row, json_t *value, struct error *err)
{
    const char *what = pg_text(rows, row, RUN_OFFERS_WHAT);
    const json_int_t runners = pg_int8(rows, row, RUN_OFFERS_RUNNERS);
    json_t *list = json_object_get(value, "lack");
    int added = 0;

    if (what[0] == '\0') added = json_object_set_new(value, "asked", json_integer(runners));
    else if (strcmp(what, "fits") == 0) added = json_object_set_new(value, "fit", json_integer(runners));
    else if (strcmp(what, "busy") == 0) added = json_object_set_new(value, "busy", json_integer(runners));
    else added = json_array_append_new(list, json_pack("{s:s, s:I}", "what", what, "runners", runners));
    return added == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for the answer");
}

struct result run_add_runners(const struct request *request, struct pg *pg, const struct uuid *id, json_t *value,
                              struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    OWNED_JSON runners = json_pack("{s:[]}", "lack");

    if (runners == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    TRY(run_read_offers(request->permit, pg, ACTION_RUN_READ, id, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) TRY(add_row(rows, i, runners, err));
    if (pg_rows_count(rows) == 0 || json_object_set(value, "runners", runners) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
}
