//! Same bits for any number of samples; settings that cannot work are refused; held cells stay held.

use gpara::{ErrorKind, NoiseSchedule, Observations, Reconstructor, Result};
use gpara_eval::baseline::{
    Ads, AdsSettings, Chain, ChainSettings, Ddnm, DdnmSettings, Ddpm, DiffPir, DiffPirSettings, Dps, DpsSettings, Fps,
    FpsSettings, StepGrid, Variant,
};

use crate::dense_oracle::cases;
use crate::world::{chain, chain_of, free, reconstruct, scenes, toy_denoiser, try_reconstruct};

fn methods(chain: &Chain) -> Vec<Box<dyn Reconstructor>> {
    let fps = |variant| Fps::new(chain.clone(), FpsSettings { variant, ..FpsSettings::default() }).unwrap();
    vec![
        Box::new(Ddpm::new(chain.clone())),
        Box::new(Dps::new(chain.clone(), DpsSettings::default()).unwrap()),
        Box::new(Ddnm::new(chain.clone(), DdnmSettings { travel_repeat: 2, ..DdnmSettings::default() }).unwrap()),
        Box::new(fps(Variant::Official)),
        Box::new(fps(Variant::Aligned)),
        Box::new(DiffPir::new(chain.clone(), DiffPirSettings::default()).unwrap()),
    ]
}

#[test]
fn each_sample_has_the_same_bits_for_any_number_of_samples() {
    for case in scenes() {
        let clipped = |samples| ChainSettings { samples, ..ChainSettings::default() };
        let (two, five) = (methods(&chain(&case, clipped(2))), methods(&chain(&case, clipped(5))));
        for (two, five) in two.iter().zip(&five) {
            let few = reconstruct(two.as_ref(), &case, 8).samples.unwrap();
            let many = reconstruct(five.as_ref(), &case, 8).samples.unwrap();
            for sample in 0..2 {
                assert_eq!(few.sample(sample), many.sample(sample), "{} on {}", two.name(), case.name);
            }
            assert_ne!(few.sample(0), few.sample(1), "{}", two.name());
            assert_ne!(few.sample(0), reconstruct(two.as_ref(), &case, 9).samples.unwrap().sample(0), "{}", two.name());
        }
    }
}

#[test]
fn invalid_cells_are_held_at_their_known_value() {
    let case = cases::named("masked 7x8");
    let settings = ChainSettings { samples: 2, ..ChainSettings::default() };
    let chain = Chain::new(toy_denoiser(&case), &NoiseSchedule::ddpm(), settings, Some(-1.0)).unwrap();
    let ads = Ads::new(chain.clone(), AdsSettings::default()).unwrap().reconstructor();
    for method in methods(&chain).into_iter().chain([ads]) {
        let found = reconstruct(method.as_ref(), &case, 1);
        for node in (0..case.grid().num_nodes()).filter(|&node| !case.valid.is_valid(node)) {
            assert!((found.mean[node] + 1.0).abs() < 1e-9, "{} node {node}: {}", method.name(), found.mean[node]);
        }
    }
}

#[test]
fn settings_that_cannot_work_are_refused_with_key_and_value() {
    let case = cases::named("full 6x5");
    let chain = || chain(&case, free(5, 2));
    let built = |settings: ChainSettings| Chain::new(toy_denoiser(&case), &NoiseSchedule::ddpm(), settings, None);
    let refused: Vec<(&str, Result<()>)> = vec![
        ("zeta", Dps::new(chain(), DpsSettings { zeta: -1.0, ..DpsSettings::default() }).map(drop)),
        ("zeta", Dps::new(chain(), DpsSettings { zeta: f64::NAN, ..DpsSettings::default() }).map(drop)),
        ("eta", Ddnm::new(chain(), DdnmSettings { eta: 1.5, ..DdnmSettings::default() }).map(drop)),
        ("travel_length", Ddnm::new(chain(), DdnmSettings { travel_length: 0, ..DdnmSettings::default() }).map(drop)),
        ("travel_repeat", Ddnm::new(chain(), DdnmSettings { travel_repeat: 0, ..DdnmSettings::default() }).map(drop)),
        ("noise_fraction", Fps::new(chain(), FpsSettings { noise_fraction: 0.0, ..FpsSettings::default() }).map(drop)),
        ("particles", Fps::new(chain(), FpsSettings { particles: 0, ..FpsSettings::default() }).map(drop)),
        ("min_noise_std", Fps::new(chain(), FpsSettings { min_noise_std: 0.0, ..FpsSettings::default() }).map(drop)),
        ("lambda", DiffPir::new(chain(), DiffPirSettings { lambda: 0.0, ..DiffPirSettings::default() }).map(drop)),
        ("zeta", DiffPir::new(chain(), DiffPirSettings { zeta: 1.1, ..DiffPirSettings::default() }).map(drop)),
        ("omega", Ads::new(chain(), AdsSettings { omega: -0.1, ..AdsSettings::default() }).map(drop)),
        ("width", Ads::new(chain(), AdsSettings { width: 0.0, ..AdsSettings::default() }).map(drop)),
        ("end_step", Ads::new(chain(), AdsSettings { end_step: Some(5), ..AdsSettings::default() }).map(drop)),
        ("first_step", Ads::new(chain(), AdsSettings { first_step: 5, ..AdsSettings::default() }).map(drop)),
        ("samples", built(free(5, 0)).map(drop)),
        ("quad", built(ChainSettings { grid: StepGrid::Quad, ..free(900, 1) }).map(drop)),
    ];
    for (key, result) in refused {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{key}");
        assert!(error.to_string().contains(key), "{key}: {error}");
    }
}

#[test]
fn measurements_of_another_grid_are_refused() {
    let (case, other) = (cases::named("full 6x5"), cases::named("row 1x24"));
    for method in methods(&chain_of(toy_denoiser(&case), free(5, 2))).iter().skip(1) {
        let error = try_reconstruct(method.as_ref(), &case, &Observations::none(other.grid()), 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShapeMismatch, "{}", method.name());
    }
}
