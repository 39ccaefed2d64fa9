/* The columns `label` of the tables `manifest` and `run_checkpoint`. */
#include "base/json.h"
#include "storage/pg_table.h"
#include "training/label_stated.h"
#include "training/label_stated_priv.h"

/* clang-format off */
static const struct pg_statement run_stated_sql = {
    "run_stated",
    "SELECT n.i - 1, l.label FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS n (name, digest, i) JOIN repository r ON r.full_name = n.name"
    " CROSS JOIN LATERAL (SELECT m.label FROM manifest m WHERE m.repository_id = r.repository_id AND m.digest = n.digest AND m.label IS NOT NULL"
    " UNION ALL SELECT c.label FROM run_checkpoint c WHERE c.repository_id = r.repository_id AND c.digest = n.digest AND c.label IS NOT NULL"
    " LIMIT 1) l",
    "text[] text[]", "int8 text"};
static const struct pg_statement *const statements[] = {&run_stated_sql};
/* clang-format on */
const struct pg_table run_stated_table = PG_TABLE(statements);

struct result run_rows_stated(struct pg *pg, const struct run_artifacts *artifacts, struct pg_rows **rows_out, struct error *err)
{
    struct bytes names[RUN_ARTIFACTS_MAX], digests[RUN_ARTIFACTS_MAX];
    struct pg_arguments arguments = {0};

    for (size_t i = 0; i < artifacts->count; i++) {
        names[i] = bytes_of_text(json_text_of(artifacts->each[i].json, "repository"));
        digests[i] = bytes_of_text(json_text_of(artifacts->each[i].json, "digest"));
    }
    pg_add_text_array(&arguments, names, artifacts->count);
    pg_add_text_array(&arguments, digests, artifacts->count);
    return pg_run(pg, &run_stated_sql, &arguments, rows_out, err);
}
