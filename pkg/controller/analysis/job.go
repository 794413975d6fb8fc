// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// The environment variables that Weir adds to the containers of a job.
const (
	envService  = "WEIR_NEW_SERVICE"
	envRevision = "WEIR_REVISION"
	envStep     = "WEIR_STEP"
)

// jobTTLSeconds is the number of seconds for which a job is kept after its end.
const jobTTLSeconds = 24 * 60 * 60

// objectName returns a name that is unique for the check in a step of an attempt. A repeated
// reconcile finds the job by this name.
func (j Job) objectName() string {
	digest := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d/%d/%s", j.UID, j.Began.Unix(), j.Step, j.Since.Unix(), j.Check))
	const most = 63 - 1 - 10 // the label job-name has at most 63 characters
	prefix := j.CronJob
	if len(prefix) > most {
		prefix = prefix[:most]
	}
	return prefix + "-" + hex.EncodeToString(digest[:])[:10]
}

// RunJob implements Sources. It creates the job unless it exists, and returns its outcome.
func (c *Cluster) RunJob(ctx context.Context, j Job) (Outcome, error) {
	var job batchv1.Job
	key := types.NamespacedName{Namespace: j.Release.Namespace, Name: j.objectName()}
	err := c.Live.Get(ctx, key, &job)
	if apierrors.IsNotFound(err) {
		return Outcome{Name: key.Name}, c.createJob(ctx, j)
	}
	switch {
	case err != nil:
		return Outcome{}, transientError{err}
	case !slices.ContainsFunc(job.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == j.UID }):
		return Outcome{}, fmt.Errorf("job %s exists, and is not of this Rollout; delete it", key.Name)
	case job.DeletionTimestamp != nil:
		return Outcome{}, transientError{fmt.Errorf("job %s is being deleted", key.Name)}
	}
	if o := jobOutcome(&job); !o.Ended.IsZero() {
		return o, nil
	}
	return Outcome{Name: key.Name}, c.imageProblem(ctx, &job)
}

// createJob creates the job of a step from the template of its CronJob.
func (c *Cluster) createJob(ctx context.Context, j Job) error {
	var cron batchv1.CronJob
	err := c.Live.Get(ctx, types.NamespacedName{Namespace: j.Release.Namespace, Name: j.CronJob}, &cron)
	switch {
	case apierrors.IsNotFound(err):
		return transientError{fmt.Errorf("cronjob %s does not exist", j.CronJob)}
	case err != nil:
		return transientError{err}
	case cron.Spec.Suspend == nil || !*cron.Spec.Suspend:
		return fmt.Errorf("cronjob %s runs on its own schedule; set its spec.suspend to true", j.CronJob)
	}
	if err := c.Writer.Create(ctx, j.newObject(&cron)); err != nil {
		// The template is refused until a user edits it. Other errors may be gone at the next try.
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return fmt.Errorf("making a job of cronjob %s: %w", j.CronJob, err)
		}
		return transientError{err}
	}
	return nil
}

// newObject returns the job object of a step. It is deleted with the Rollout, or a day after its
// end.
func (j Job) newObject(cron *batchv1.CronJob) *batchv1.Job {
	template := cron.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: j.Release.Namespace, Name: j.objectName(), Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "Rollout", Name: j.Rollout, UID: j.UID}},
		},
		Spec: template.Spec,
	}
	job.Spec.TTLSecondsAfterFinished, job.Spec.Suspend = new(int32(jobTTLSeconds)), nil
	pod := &job.Spec.Template.Spec
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			containers[i].Env = append(containers[i].Env,
				corev1.EnvVar{Name: envService, Value: j.Release.New.Service.Name},
				corev1.EnvVar{Name: envRevision, Value: j.Revision},
				corev1.EnvVar{Name: envStep, Value: strconv.Itoa(int(j.Step))})
		}
	}
	return job
}

// jobOutcome returns how a job has ended. Ended is zero while the job has no condition of an end.
func jobOutcome(job *batchv1.Job) Outcome {
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue || c.Type != batchv1.JobComplete && c.Type != batchv1.JobFailed {
			continue
		}
		o := Outcome{Name: job.Name, Ended: c.LastTransitionTime.Time}
		if o.Ended.IsZero() {
			o.Ended = job.CreationTimestamp.Add(time.Second)
		}
		if c.Type == batchv1.JobFailed {
			o.FailureReason = c.Reason + ": " + c.Message
		}
		return o
	}
	return Outcome{}
}

// imageProblem returns an error if an image of a job cannot be pulled. This makes the check inconclusive,
// because it says nothing about the new version.
func (c *Cluster) imageProblem(ctx context.Context, job *batchv1.Job) error {
	var pods corev1.PodList
	if err := c.Reader.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return transientError{err}
	}
	for i := range pods.Items {
		if why := workload.ImagePullReason(&pods.Items[i]); why != "" && metav1.IsControlledBy(&pods.Items[i], job) {
			return fmt.Errorf("job %s: %s", job.Name, why)
		}
	}
	return nil
}
