#include "runner/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

struct cluster {
    struct slurm *slurm;
    struct slurm_node *nodes;
    size_t count;
};

static void cluster_done(struct cluster *cluster)
{
    slurm_free(cluster->slurm);
    free(cluster->nodes);
}

static struct result look(const struct slurm_options *options, struct cluster *cluster, struct error *err)
{
    TRY(slurm_open(options, &cluster->slurm, err));
    TRY(slurm_nodes(cluster->slurm, &cluster->nodes, &cluster->count, err));
    if (cluster->count == 0) return failure(err, ERROR_NOT_FOUND, "the cluster shows no nodes to this user");
    return SUCCESS;
}

static const char *or_none(const char *text)
{
    return text[0] == '\0' || strcmp(text, "(null)") == 0 ? "none" : text;
}

static struct result write_text(const struct cluster *cluster, struct buffer *text, struct error *err)
{
    TRY(buffer_format(text, err, "slurm      %s, %zu node%s\n", slurm_version(cluster->slurm), cluster->count,
                      cluster->count == 1 ? "" : "s"));
    for (size_t i = 0; i < cluster->count; i++) {
        const struct slurm_node *node = &cluster->nodes[i];
        TRY(buffer_format(text, err, "node       %s  %s, %lld processors, %lld MiB; features %s; devices %s; partitions %s\n",
                          node->name, node->state, (long long)node->cpus, (long long)node->memory_bytes >> 20,
                          or_none(node->features), or_none(node->gres), or_none(node->partitions)));
    }
    return SUCCESS;
}

static json_t *node_json(const struct slurm_node *node)
{
    return json_pack("{s:s s:s s:I s:I s:s s:s s:s}", "name", node->name, "state", node->state, "cpus", (json_int_t)node->cpus,
                     "memory_bytes", (json_int_t)node->memory_bytes, "features", node->features, "devices", node->gres,
                     "partitions", node->partitions);
}

static struct result write_json(const struct cluster *cluster, struct buffer *text, struct error *err)
{
    OWNED_JSON nodes = json_array();
    OWNED_JSON all = json_pack("{s:s s:O}", "slurm", slurm_version(cluster->slurm), "nodes", nodes);

    for (size_t i = 0; i < cluster->count; i++)
        if (json_array_append_new(nodes, node_json(&cluster->nodes[i])) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for nodes");
    if (all == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for nodes");
    TRY(json_write_canonical(text, all, err));
    return buffer_add_text(text, "\n", err);
}

typedef struct result (*writer)(const struct cluster *cluster, struct buffer *text, struct error *err);

static struct result show(const struct slurm_options *options, writer write, struct buffer *text, struct error *err)
{
    struct cluster cluster = {0};
    struct result result = look(options, &cluster, err);

    if (result.ok) result = write(&cluster, text, err);
    cluster_done(&cluster);
    return result;
}

struct result cluster_text(const struct slurm_options *options, struct buffer *text, struct error *err)
{
    return show(options, write_text, text, err);
}

struct result cluster_json(const struct slurm_options *options, struct buffer *text, struct error *err)
{
    return show(options, write_json, text, err);
}
