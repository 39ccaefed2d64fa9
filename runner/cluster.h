/*
 * runner/cluster.h -- the nodes that a scheduler offers for runs: `sijil-runner check --slurm`.
 */
#pragma once

#include "runner/slurm/slurm.h"

/** Lists the nodes of the cluster for a person, or as a JSON object. ERROR_NOT_FOUND for a cluster without nodes, and the errors of
 *  slurm_open() and slurm_nodes(). */
RESULT cluster_text(const struct slurm_options *options, struct buffer *text, struct error *err);
RESULT cluster_json(const struct slurm_options *options, struct buffer *text, struct error *err);
